// Values as tagged JSON text (see wire/worker.py) and back.
const tracked = new Native.WeakMap(); // proxy of a recorded value -> the value itself
const SAFE = 9007199254740991;

function pathText(path) {
  let result = "";
  for (let i = 0; i < path.length; i++) {
    result += typeof path[i] === "number" ? "[" + path[i] + "]" : (result === "" ? "" : ".") + path[i];
  }
  return result;
}
function describe(value) {
  if (typeof value === "number") return value + ", which JSON cannot carry";
  if (typeof value === "function" || typeof value === "symbol") return "a " + typeof value;
  if (instance(value, Native.Promise)) return "a Promise (missing await?)";
  if (instance(value, Native.Map)) return "a Map (convert it: Object.fromEntries(map))";
  if (instance(value, Native.Set)) return "a Set (convert it: [...set])";
  if (instance(value, Native.RegExp)) return "a RegExp (convert it to text)";
  if (instance(value, Native.WeakMap) || instance(value, Native.WeakSet)) return "a weak collection";
  return "binary data (convert it: Array.from(bytes))";
}
function unfit(value) {
  switch (typeof value) {
    case "number": return value - value !== 0;
    case "function": return !weakHas(planned, value);
    case "symbol": return true;
    case "object":
      return value !== null && !isArray(value) && getPrototypeOf(value) !== ObjectPrototype && (
        instance(value, Native.Promise) || instance(value, Native.Map) || instance(value, Native.Set) || instance(value, Native.RegExp)
        || instance(value, Native.WeakMap) || instance(value, Native.WeakSet) || instance(value, TypedArray)
        || instance(value, Native.ArrayBuffer) || instance(value, Native.DataView));
  }
  return false;
}
function findPath(value, wanted, path, budget) {
  if (wanted(value)) return path;
  if (!isObject(value) || path.length > 64 || budget.left-- < 0 || weakHas(planned, value)) return null;
  const keys = objectKeys(value);
  for (let i = 0; i < keys.length; i++) {
    const found = findPath(value[keys[i]], wanted, concat(path, isArray(value) ? +keys[i] : keys[i]), budget);
    if (found) return found;
  }
  return null;
}
function namedPath(what, value, wanted) {
  const path = findPath(value, wanted, [], { left: 10000 });
  const rest = path === null ? "" : pathText(path);
  return rest === "" ? what : what + (rest[0] === "[" ? " " : ".") + rest;
}
function reference(record) {
  return "[" + record.write + "," + stringify(record.path) + "]";
}
function encodeText(value) {
  if (indexOf(value, mark) >= 0) {
    const parts = split(value);
    if (parts.length === 1) return TAG + "t[" + reference(parts[0]) + "]";
    let list = "";
    for (let i = 0; i < parts.length; i++) {
      list += (i ? "," : "") + (typeof parts[i] === "string" ? stringify(fit(parts[i])) : reference(parts[i]));
    }
    return TAG + "t[" + list + "]";
  }
  return charCode(value, 0) === 1 ? TAG + "s" + fit(value) : fit(value);
}
function firstRecord(value) {
  const parts = split(value);
  for (let i = 0; ; i++) if (typeof parts[i] !== "string") return parts[i];
}
function fit(value) {
  return isWellFormed(value) ? value : toWellFormed(value);
}
// Returns the tagged JSON text of `value`. `what` names it in errors; `holes` says whether placeholders may be in it.
function encode(value, what, holes) {
  function refuse(record) {
    const error = notYet(record);
    put(error, "message", namedPath(what, value, (part) => isObject(part) && weakGet(planned, part) === record
      || typeof part === "string" && indexOf(part, mark) >= 0) + ": " + error.message);
    return error;
  }
  const result = stringify(value, function (key, given) {
    const raw = this[key];
    switch (typeof raw) {
      case "string":
        if (!holes && indexOf(raw, mark) >= 0) throw refuse(firstRecord(raw));
        return encodeText(raw);
      case "bigint":
        return TAG + "i" + bigText(raw);
      case "boolean": case "undefined":
        return raw;
      case "number":
        if (raw - raw === 0) return raw;
        break;
      case "object": case "function": {
        if (raw === null) return null;
        const record = weakGet(planned, raw);
        if (record) {
          if (!holes) throw refuse(record);
          return TAG + "r" + reference(record);
        }
        const target = weakGet(tracked, raw);
        if (target) {
          touchAll(target);
          return exported(target);
        }
        if (instance(raw, Native.Error)) return { name: text(raw.name), message: text(raw.message) };
        if (given !== raw && !hasOwn(ObjectPrototype, "toJSON")) {
          return typeof given === "string" ? encodeText(given) : typeof given === "bigint" ? TAG + "i" + bigText(given) : given;
        }
        if (!unfit(raw)) return raw;
      }
    }
    throw new Native.TypeError(namedPath(what, value, unfit) + " is " + describe(raw));
  });
  if (result === undefined) return "null";
  if (placeholders.size && indexOf(result, mark) >= 0) throw named("NotYetReal", what + ": a value that is not there yet cannot be the name of a field");
  return result;
}
function untag(value) {
  const rest = substring(value, 2);
  switch (value[1]) {
    case "s": return rest;
    case "i": return Native.BigInt(rest);
    case "r": {
      const part = parse(rest);
      return mapGet(placeholders, part[0] + stringify(part[1]));
    }
    case "t": {
      const list = parse(rest);
      let result = "";
      for (let i = 0; i < list.length; i++) {
        result += typeof list[i] === "string" ? list[i] : token(weakGet(planned, mapGet(placeholders, list[i][0] + stringify(list[i][1]))));
      }
      return result;
    }
  }
  return value;
}
function revive(value) {
  if (typeof value === "string") return charCode(value, 0) === 1 ? untag(value) : value;
  if (!isObject(value)) return value;
  const keys = objectKeys(value);
  for (let i = 0; i < keys.length; i++) {
    const before = value[keys[i]];
    const after = revive(before);
    if (after !== before) put(value, keys[i], after);
  }
  return value;
}
function decode(source) {
  const value = parse(source);
  return indexOf(source, "\\u0001") < 0 ? value : revive(value);
}
