// What connectors give: promises that say so when they are used as if they were the value already.
const PromisePrototype = Native.Promise.prototype;
const { toStringTag } = Symbol;

function early(target, key) {
  const known = typeof key === "string";
  throw named("TypeError", target.label + " is a promise" + (known ? ", which has no '" + key + "'" : "")
    + ": " + (known ? "(await " + target.label + ")." + key : "await " + target.label));
}
// One handler for all, and no closure before it is asked for: every host call makes one of these.
const promiseHandler = {
  get(target, key) {
    switch (key) {
      case "then": return (yes, no) => promiseThen(target.promise(), yes, no);
      case "catch": return (no) => promiseThen(target.promise(), undefined, no);
      case "finally": return (act) => promiseThen(target.promise(), (value) => promiseThen(resolved(act()), () => value),
        (error) => promiseThen(resolved(act()), () => { throw error; }));
      case asyncIterator: return target.pages;
      case "constructor": return Native.Promise;
      case toStringTag: return "Promise";
      case "toJSON": return undefined;
    }
    return typeof key === "symbol" && key !== iterator && key !== toPrimitive ? undefined : early(target, key);
  },
  getPrototypeOf: () => PromisePrototype,
  set: early, defineProperty: early, deleteProperty: early, has: early, ownKeys: early, setPrototypeOf: early,
};
function awaited(promise, label, pages) {
  return new Native.Proxy({ __proto__: null, promise, label, pages }, promiseHandler);
}
function given(promise, label) {
  return awaited(() => promise, label, undefined);
}
