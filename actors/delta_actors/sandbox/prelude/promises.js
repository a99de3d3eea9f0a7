// What connectors give: promises that say so when they are used as if they were the value already.
const PromisePrototype = Native.Promise.prototype;
const { toStringTag } = Symbol;

function awaited(promise, label, pages) {
  const early = (key) => {
    throw named("TypeError", label + " is a promise" + (typeof key === "string" ? ", which has no '" + key + "'" : "")
      + ": " + (typeof key === "string" ? "(await " + label + ")." + key : "await " + label));
  };
  const methods = createObject(null);
  methods.then = (yes, no) => promiseThen(promise(), yes, no);
  methods.catch = (no) => promiseThen(promise(), undefined, no);
  methods.finally = (act) => promiseThen(promise(), (value) => promiseThen(resolved(act()), () => value),
    (error) => promiseThen(resolved(act()), () => { throw error; }));
  return new Native.Proxy(createObject(PromisePrototype), {
    get(_, key) {
      if (methods[key] !== undefined) return methods[key];
      if (key === asyncIterator) return pages;
      if (key === "constructor") return Native.Promise;
      if (key === toStringTag) return "Promise";
      if (key === "toJSON" || typeof key === "symbol" && key !== iterator && key !== toPrimitive) return undefined;
      return early(key);
    },
    set: (_, key) => early(key), defineProperty: (_, key) => early(key), deleteProperty: (_, key) => early(key),
    has: (_, key) => early(key), ownKeys: () => early(), setPrototypeOf: () => early(),
  });
}
function given(promise, label) {
  return awaited(() => promise, label, undefined);
}
