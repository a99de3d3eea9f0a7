// Everything the prelude uses is taken here, before a program can replace it. The prelude itself neither assigns by index
// nor pushes, iterates or spreads arrays: those would run what a program put on the prototypes.
const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const { stringify, parse } = JSON;
const { isArray } = Array;
const { getPrototypeOf, defineProperty, create: createObject } = Object;
const reflect = { get: Reflect.get, apply: Reflect.apply, ownKeys: Reflect.ownKeys, descriptor: Reflect.getOwnPropertyDescriptor };
const objectKeys = Object.keys;
const Native = {
  Promise, Error, TypeError, RangeError, String, Number, Proxy, Map, Set, WeakMap, WeakSet, RegExp, Date, BigInt, Symbol, Function,
  ArrayBuffer, DataView, JSON,
};
const ObjectPrototype = Object.prototype;
const TypedArray = getPrototypeOf(Uint8Array);
const hasOwn = uncurry(ObjectPrototype.hasOwnProperty);
const isPrototypeOf = uncurry(ObjectPrototype.isPrototypeOf);
const promiseThen = uncurry(Promise.prototype.then);
const resolved = Promise.resolve.bind(Promise);
const mapGet = uncurry(Map.prototype.get), mapSet = uncurry(Map.prototype.set), mapDelete = uncurry(Map.prototype.delete);
const mapHas = uncurry(Map.prototype.has), mapEach = uncurry(Map.prototype.forEach), mapClear = uncurry(Map.prototype.clear);
const weakGet = uncurry(WeakMap.prototype.get), weakSet = uncurry(WeakMap.prototype.set), weakHas = uncurry(WeakMap.prototype.has);
const arrayMethods = createObject(null);
for (const name of ["push", "pop", "shift", "unshift", "splice", "sort", "reverse", "fill", "copyWithin"]) {
  arrayMethods[name] = uncurry(Array.prototype[name]);
}
const arraySlice = uncurry(Array.prototype.slice), arrayIndexOf = uncurry(Array.prototype.indexOf);
const join = uncurry(Array.prototype.join);
const indexOf = uncurry(String.prototype.indexOf), substring = uncurry(String.prototype.substring);
const charCode = uncurry(String.prototype.charCodeAt), toLower = uncurry(String.prototype.toLowerCase);
const isWellFormed = uncurry(String.prototype.isWellFormed), toWellFormed = uncurry(String.prototype.toWellFormed);
const bigText = uncurry(BigInt.prototype.toString);
const { trunc, min, max } = Math;
const { toPrimitive, iterator, asyncIterator } = Symbol;

function data(value) {
  const descriptor = createObject(null);
  descriptor.value = value;
  descriptor.writable = descriptor.enumerable = descriptor.configurable = true;
  return descriptor;
}
function put(object, key, value) {
  defineProperty(object, key, data(value));
  return object;
}
function add(list, value) {
  put(list, list.length, value);
  return list;
}
function concat(list, value) {
  return add(arraySlice(list, 0), value);
}
function isObject(value) {
  return typeof value === "object" ? value !== null : typeof value === "function";
}
function instance(value, constructor) {
  return isPrototypeOf(constructor.prototype, value);
}
function text(value) {
  try {
    return typeof value === "symbol" ? "a symbol" : Native.String(value);
  } catch {
    return "(unprintable)";
  }
}
