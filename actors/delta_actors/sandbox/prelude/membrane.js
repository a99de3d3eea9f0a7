// Entities: plain objects to look at, whose changes are recorded, deeply (spec/sandbox 6).
const proxies = new Native.WeakMap(); // value -> its proxy
const homes = new Native.WeakMap(); // value -> { parent, key, entity }
const notes = new Native.Map();
let sequence = 0, recorded = 0;
const MAX_MUTATIONS = 20000, MAX_PLACED = 200;

function note(message) {
  if (notes.size < 50) mapSet(notes, message, true);
}
function nextSequence() {
  return ++sequence;
}
// [entity, path] of a value now, or null when it was taken out of its entity.
function locate(value) {
  let path = [];
  let home = weakGet(homes, value);
  while (home.parent !== null) {
    if (home.parent[home.key] !== value) {
      const found = isArray(home.parent) ? arrayIndexOf(home.parent, value) : keyOf(home.parent, value);
      if (found === undefined || found === -1) return null;
      home.key = found;
    }
    path = arrayWith(home.key, path);
    value = home.parent;
    home = weakGet(homes, value);
  }
  return home.entity.value === value ? [home.entity, path] : null;
}
function keyOf(object, value) {
  const keys = objectKeys(object);
  for (let i = 0; i < keys.length; i++) if (object[keys[i]] === value) return keys[i];
  return undefined;
}
function arrayWith(first, rest) {
  const list = [first];
  for (let i = 0; i < rest.length; i++) add(list, rest[i]);
  return list;
}
function record(value, key, op, encoded, start, remove) {
  const found = locate(value);
  const at = recorded < MAX_PLACED ? here() : [0, 0];
  if (found === null) {
    note((at[0] ? "line " + at[0] + ": " : "") + "the changed item is no longer part of its entity; the change is not planned");
    return;
  }
  const entity = found[0], path = key === undefined ? found[1] : concat(found[1], key);
  if (entity.deleted) throw named("Refused", entity.label + " was deleted earlier in this program");
  if (++recorded > MAX_MUTATIONS) throw crossed("mutations", "the program recorded more than " + MAX_MUTATIONS + " changes");
  if (entity.patched.size && path.length) claim(entity, path[0], at);
  if (entity.seq === 0) entity.seq = nextSequence();
  if (entity.line === 0) entity.line = at[0];
  logged(entity, op, path, encoded, start, remove, at[0]);
}
function logged(entity, op, path, encoded, start, remove, line) {
  entity.log += (entity.log === "" ? "" : ",") + '["' + op + '",' + stringify(path) + "," + encoded + "," + start + "," + remove + "," + line + "]";
}
function touchAll(target) {
  const home = weakGet(homes, target);
  if (!home || home.parent !== null) return;
  const keys = objectKeys(target);
  for (let i = 0; i < keys.length; i++) mapSet(home.entity.fields, keys[i], true);
}
// What a recorded value looks like to JSON: a created entity also shows its key, which is not there yet.
function exported(target) {
  const home = weakGet(homes, target);
  const entity = home && home.parent === null ? home.entity : null;
  if (!entity || !entity.created || hasOwn(target, entity.keyField)) return target;
  const copy = {};
  put(copy, entity.keyField, entity.part(entity.keyField));
  const keys = objectKeys(target);
  for (let i = 0; i < keys.length; i++) put(copy, keys[i], target[keys[i]]);
  return copy;
}
// A copy of `value` that owns nothing of the program's, and its text.
function stored(value, what) {
  const encoded = encode(value, what, true);
  return { encoded, value: decode(encoded) };
}
function storedList(list, what) {
  const copy = stored(list, what);
  return { encoded: copy.encoded, value: copy.value };
}
function replaceAll(target, items, what) {
  const encoded = encode(items, what, true);
  record(target, undefined, "replace", encoded, 0, 0);
  for (let i = 0; i < items.length; i++) put(target, i, items[i]);
}
function wrapped(value, parent, key) {
  if (typeof value !== "object" || value === null) return value;
  return weakGet(proxies, value) ?? wrap(value, { parent, key, entity: null });
}
function wrappedList(list, parent) {
  for (let i = 0; i < list.length; i++) put(list, i, wrapped(list[i], parent, i));
  return list;
}
const mutators = {
  push(target, items) {
    if (!items.length) return target.length;
    const copy = storedList(items, "the pushed value");
    record(target, undefined, "append", copy.encoded, 0, 0);
    for (let i = 0; i < copy.value.length; i++) add(target, copy.value[i]);
    return target.length;
  },
  pop(target) {
    if (!target.length) return undefined;
    record(target, undefined, "splice", "[]", target.length - 1, 1);
    return wrapped(arrayMethods.pop(target), target, 0);
  },
  shift(target) {
    if (!target.length) return undefined;
    record(target, undefined, "splice", "[]", 0, 1);
    return wrapped(arrayMethods.shift(target), target, 0);
  },
  unshift(target, items) {
    mutators.splice(target, arrayWith(0, arrayWith(0, items)));
    return target.length;
  },
  splice(target, items) {
    if (!items.length) return [];
    const length = target.length;
    let start = trunc(+items[0]) || 0;
    start = start < 0 ? max(0, length + start) : min(start, length);
    const remove = items.length < 2 ? length - start : min(max(trunc(+items[1]) || 0, 0), length - start);
    const copy = storedList(arraySlice(items, 2), "the inserted value");
    if (remove || copy.value.length) record(target, undefined, "splice", copy.encoded, start, remove);
    let call = [target, start, remove];
    for (let i = 0; i < copy.value.length; i++) add(call, copy.value[i]);
    return wrappedList(reflect.apply(arrayMethods.splice, undefined, call), target);
  },
  sort(target, items, self) {
    const list = arraySlice(target, 0), compare = items[0];
    if (compare === undefined) arrayMethods.sort(list);
    else arrayMethods.sort(list, (a, b) => compare(wrapped(a, target, 0), wrapped(b, target, 0)));
    replaceAll(target, list, "the sorted array");
    return self;
  },
  reverse(target, _, self) {
    replaceAll(target, arrayMethods.reverse(arraySlice(target, 0)), "the reversed array");
    return self;
  },
  fill(target, items, self) {
    const list = arraySlice(target, 0), copy = stored(items[0], "the filling value");
    arrayMethods.fill(list, copy.value, items[1], items[2]);
    if (isObject(copy.value)) for (let i = 0; i < list.length; i++) if (list[i] === copy.value) put(list, i, decode(copy.encoded));
    replaceAll(target, list, "the filled array");
    return self;
  },
  copyWithin(target, items, self) {
    const list = arrayMethods.copyWithin(arraySlice(target, 0), items[0], items[1], items[2]);
    const copy = stored(list, "the array");
    replaceAll(target, copy.value, "the array");
    return self;
  },
};
const mutatorFunctions = createObject(null);
for (const name of objectKeys(mutators)) {
  mutatorFunctions[name] = { [name](...items) {
    const target = isObject(this) ? weakGet(tracked, this) : undefined;
    if (target === undefined || !isArray(target)) return reflect.apply(arrayMethods[name], undefined, arrayWith(this, items));
    return mutators[name](target, items, this);
  } }[name];
}
function arrayKey(target, key) {
  if (!isArray(target)) return key;
  const number = +key;
  return number >= 0 && trunc(number) === number && Native.String(number) === key ? number : key;
}
function assign(target, key, value) {
  if (typeof key === "symbol") throw new Native.TypeError("a symbol cannot be the name of a field");
  if (indexOf(key, mark) >= 0) throw notYet(firstRecord(key));
  if (isArray(target) && key === "length") return setLength(target, value);
  const at = arrayKey(target, key);
  if (isArray(target) && typeof at !== "number") throw new Native.TypeError("an array has no field '" + key + "'");
  if (isArray(target) && at > target.length) {
    throw new Native.RangeError("index " + at + " is past the end of the array (length " + target.length + ")");
  }
  const own = hasOwn(target, key), old = own ? target[key] : undefined;
  if (value === undefined && !isArray(target)) return own ? remove(target, key) : true;
  if (own && old === value && !weakHas(planned, value ?? target)) return true;
  if (isObject(value) && weakGet(tracked, value) === old && own && isObject(old)) return true;
  const copy = stored(value, key);
  if (isArray(target) && at === target.length) {
    record(target, undefined, "append", "[" + copy.encoded + "]", 0, 0);
  } else record(target, at, "set", copy.encoded, 0, 0);
  put(target, key, copy.value);
  return true;
}
function setLength(target, value) {
  if (value > target.length) throw new Native.RangeError("an array cannot grow by its length");
  if (value < target.length) {
    record(target, undefined, "splice", "[]", value, target.length - value);
    target.length = value;
  }
  return true;
}
function remove(target, key) {
  if (!hasOwn(target, key)) return true;
  if (isArray(target)) throw new Native.TypeError("delete leaves a hole in an array; use splice");
  record(target, key, "delete", "null", 0, 0);
  const home = weakGet(homes, target);
  if (home.parent === null) mapSet(home.entity.dropped, key, true);
  return delete target[key];
}
const handler = {
  get(target, key, self) {
    if (typeof key === "string") {
      if (isArray(target)) {
        if (mutatorFunctions[key] !== undefined) return mutatorFunctions[key];
      } else {
        const home = weakGet(homes, target);
        if (home.parent === null) {
          if (hasOwn(target, key)) mapSet(home.entity.fields, key, true);
          else if (home.entity.created && !(key in target) && key !== "then" && key !== "toJSON") return home.entity.part(key);
        }
      }
    }
    const value = reflect.get(target, key, self);
    return typeof value === "object" && value !== null && hasOwn(target, key) ? wrapped(value, target, arrayKey(target, key)) : value;
  },
  set: assign,
  deleteProperty: remove,
  defineProperty(target, key, descriptor) {
    if (hasOwn(descriptor, "get") || hasOwn(descriptor, "set")) throw new Native.TypeError("a field cannot be computed: give it a value");
    return assign(target, key, descriptor.value);
  },
  getOwnPropertyDescriptor(target, key) {
    const descriptor = reflect.descriptor(target, key);
    if (descriptor && hasOwn(descriptor, "value")) put(descriptor, "value", wrapped(descriptor.value, target, arrayKey(target, key)));
    return descriptor;
  },
  ownKeys(target) {
    touchAll(target);
    return reflect.ownKeys(target);
  },
  setPrototypeOf() { throw new Native.TypeError("the prototype of a record cannot be changed"); },
  preventExtensions() { throw new Native.TypeError("a record cannot be frozen"); },
};
function wrap(value, home) {
  const proxy = new Native.Proxy(value, handler);
  weakSet(proxies, value, proxy);
  weakSet(tracked, proxy, value);
  weakSet(homes, value, home);
  return proxy;
}
