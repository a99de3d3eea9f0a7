// What a planned call will give. It may stand in arguments of later writes, in text and in the returned value.
const planned = new Native.WeakMap();
const placeholders = new Native.Map();
const tokens = new Native.Map();
let mark = "\uE000", arithmetic = createObject(null);
const END = "\uE001", TAG = "\u0001";

function notYet(record) {
  const at = here();
  const where = at[0] ? "line " + at[0] + ", column " + at[1] + ": " : "";
  return named("NotYetReal", where + record.label + " gets its value when the plan is applied. Pass it to a later write, put it in a "
    + "text with `${...}`, or return it; to decide, look up or calculate with it, split the task: apply first, then read it in a second program");
}
function token(record) {
  if (record.token === "") {
    record.token = mark + (tokens.size + 1) + END;
    mapSet(tokens, record.token, record);
  }
  return record.token;
}
function placeholder(write, path, label) {
  const id = write + stringify(path);
  const known = mapGet(placeholders, id);
  if (known) return known;
  const record = { write, path, label, token: "" };
  const refuse = () => { throw notYet(record); };
  const proxy = new Native.Proxy(() => {}, {
    get(_, key) {
      if (key === toPrimitive) return (hint) => {
        const stack = new Native.Error().stack, at = rawPlace(stack);
        if (hint === "number" || decides(stack) || hint === "string" && names(stack) || hint === "default" && arithmetic[at[0] + ":" + at[1]]) throw notYet(record);
        return token(record);
      };
      if (key === "toString" || key === "toJSON") return () => token(record);
      if (key === iterator || key === asyncIterator || key === "valueOf" || key === "length") throw notYet(record);
      if (typeof key === "symbol" || key === "then") return undefined;
      return placeholder(write, concat(path, key), label + "." + key);
    },
    apply: refuse, set: refuse, has: refuse, ownKeys: refuse, deleteProperty: refuse, defineProperty: refuse,
    getOwnPropertyDescriptor: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
    getPrototypeOf: () => ObjectPrototype,
  });
  weakSet(planned, proxy, record);
  mapSet(placeholders, id, proxy);
  return proxy;
}
// Whether a built-in that does more than join texts asks for a value: parseInt, JSON.parse, startsWith, Date.
const JOINING = ["String", "join", "concat", "toString", "replace", "replaceAll", "raw"];
function caller(stack) {
  const from = indexOf(stack, "\n") + 1, line = indexOf(stack, "\n", from);
  return substring(stack, from, line < 0 ? stack.length : line);
}
function decides(stack) {
  const frame = caller(stack), end = indexOf(frame, " (native)");
  return end >= 0 && arrayIndexOf(JOINING, substring(frame, indexOf(frame, "at ") + 3, end)) < 0;
}
// Whether a value is wanted as an index or the name of a field: the engine itself asks then, while texts are joined by
// built-ins.
function names(stack) {
  return indexOf(caller(stack), " (native)") < 0;
}
// Sums whose operands are not known to be texts or numbers: text and a placeholder give a text, all else is arithmetic.
function plus(a, b) {
  if (placeholders.size !== 0) {
    const left = isObject(a) ? weakGet(planned, a) : undefined, right = isObject(b) ? weakGet(planned, b) : undefined;
    if (left !== undefined || right !== undefined) {
      if (left !== undefined && right !== undefined || typeof (left === undefined ? a : b) !== "string") throw notYet(left ?? right);
      return left === undefined ? a + token(right) : token(left) + b;
    }
  }
  return a + b;
}
// Looking for a value among others decides as well, wherever one of them is not there yet.
function guardSearch() {
  const names = ["includes", "indexOf", "lastIndexOf"], prototype = getPrototypeOf([]);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], native = prototype[name];
    defineProperty(prototype, name, { value: { [name](...values) {
      const found = reflect.apply(native, this, values);
      if (placeholders.size !== 0 && (found === false || found === -1)) {
        if (this.length) check(values[0]);
        if (isArray(this)) for (let j = 0; j < this.length; j++) if (isObject(this[j]) && weakHas(planned, this[j])) check(this[j]);
      }
      return found;
    } }[name], writable: true, enumerable: false, configurable: true });
  }
}
// Every condition of the program passes here, since a proxy alone is always true, and so is a promise.
function check(value, called) {
  if (called === 1 && isObject(value) && instance(value, Native.Promise)) {
    throw named("TypeError", "this is a promise, which is always true: await it first");
  }
  if (placeholders.size === 0) return value;
  if (isObject(value)) {
    if (weakHas(planned, value)) throw notYet(weakGet(planned, value));
  } else if (typeof value === "string" && indexOf(value, mark) >= 0) {
    const parts = split(value);
    for (let i = 0; i < parts.length; i++) if (typeof parts[i] !== "string") throw notYet(parts[i]);
  }
  return value;
}
// A text as a list of texts and records of what stands between them.
function split(value) {
  const parts = [];
  let from = 0, at = indexOf(value, mark);
  while (at >= 0) {
    const end = indexOf(value, END, at);
    const record = end < 0 ? undefined : mapGet(tokens, substring(value, at, end + 1));
    if (!record) throw named("NotYetReal", "a text with a value that is not there yet was cut in two; join texts only, or split the task");
    if (at > from) add(parts, substring(value, from, at));
    add(parts, record);
    from = end + 1;
    at = indexOf(value, mark, from);
  }
  if (from < value.length) add(parts, substring(value, from));
  return parts;
}
function readable(value) {
  if (indexOf(value, mark) < 0) return value;
  let result = "";
  const parts = split(value);
  for (let i = 0; i < parts.length; i++) result += typeof parts[i] === "string" ? parts[i] : "\u27E8" + parts[i].label + "\u27E9";
  return result;
}
