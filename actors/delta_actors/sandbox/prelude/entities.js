// Entities of a collection: got, created, updated, deleted; one object per key for the whole program.
function identity(view, collection, key) {
  return view.name + "\n" + collection.name + "\n" + (typeof key === "string" ? key : typeof key === "bigint" ? bigText(key) : encode(key, "the key", true));
}
function entityOf(view, collection, key, value) {
  return {
    view, collection, key, value, proxy: null, label: view.alias + "." + collection.name + " " + keyLabel(key), log: "", seq: 0, line: 0,
    fields: new Native.Map(), sources: "", complete: true, deleted: false, dropped: new Native.Map(), patched: new Native.Map(), claimed: new Native.Map(), created: null, keyField: collection.key, part: null,
  };
}
function keyLabel(key) {
  return isObject(key) ? (weakHas(planned, key) ? "\u27E8" + weakGet(planned, key).label + "\u27E9" : "") : text(key);
}
function sourceText(id, path) {
  return "[" + id + "," + stringify(path) + "]";
}
// The one object for an entity, new or known; a fuller or fresher value replaces one without changes.
function adopt(view, collection, key, value, id, path, complete) {
  const name = identity(view, collection, key);
  let entity = mapGet(entities, name);
  if (!entity) {
    entity = entityOf(view, collection, key, value);
    entity.complete = complete;
    entity.sources = sourceText(id, path);
    entity.proxy = wrap(value, { parent: null, key: null, entity });
    mapSet(entities, name, entity);
    layKnown(entity);
  } else if (entity.deleted) {
    return entity;
  } else if (entity.seq === 0 && (complete || !entity.complete)) {
    refresh(entity.value, value);
    mapClear(entity.patched);
    layKnown(entity);
    entity.sources = sourceText(id, path);
    entity.complete = complete;
  } else if (complete && !entity.complete) {
    const keys = objectKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const kept = mapGet(entity.patched, keys[i]);
      if (kept && !kept.own) mapSet(entity.patched, keys[i], { own: true, value: value[keys[i]] });
      else if (!hasOwn(entity.value, keys[i]) && !mapHas(entity.dropped, keys[i])) put(entity.value, keys[i], value[keys[i]]);
    }
    entity.sources += "," + sourceText(id, path);
    entity.complete = true;
  }
  return entity;
}
function refresh(target, value) {
  const old = objectKeys(target);
  for (let i = 0; i < old.length; i++) if (!hasOwn(value, old[i])) delete target[old[i]];
  const keys = objectKeys(value);
  for (let i = 0; i < keys.length; i++) put(target, keys[i], value[keys[i]]);
}
function step(value, path) {
  for (let i = 0; i < path.length; i++) {
    if (!isObject(value) || !hasOwn(value, path[i])) return undefined;
    value = value[path[i]];
  }
  return value;
}
function collectionObject(view, collection) {
  const owner = view.alias + "." + collection.name, table = {}, names = [];
  const offer = (name, call) => {
    put(table, name, call);
    add(names, name);
  };
  if (collection.get) offer("get", (key, extra) => given(getEntity(view, collection, key, extra), owner + ".get(...)"));
  if (collection.list) offer("list", (filter) => listing(view, collection, collection.list, filter));
  if (collection.search) offer("search", (query) => listing(view, collection, collection.search, query));
  if (collection.create) offer("create", (value) => given(createEntity(view, collection, value), owner + ".create(...)"));
  if (collection.update && collection.get) {
    offer("update", (key, fields) => {
      const at = here();
      if (!isObject(fields)) throw new Native.TypeError(owner + ".update takes a key and an object of fields");
      return given(promiseThen(getEntity(view, collection, key), (entity) => standingAt(at, () => {
        const names = objectKeys(fields);
        for (let i = 0; i < names.length; i++) entity[names[i]] = fields[names[i]];
        return entity;
      })), owner + ".update(...)");
    });
  }
  if (collection.delete) offer("delete", (key) => given(deleteEntity(view, collection, key), owner + ".delete(...)"));
  return sealed(owner, view, names, table);
}
function keyOfGiven(collection, given, binding) {
  if (!isObject(given) || weakHas(planned, given)) return given;
  if (binding.key !== null && hasOwn(given, binding.key)) return given[binding.key];
  return given[collection.key];
}
function keyed(binding, key, extra) {
  const value = {};
  if (isObject(extra)) {
    const names = objectKeys(extra);
    for (let i = 0; i < names.length; i++) put(value, names[i], extra[names[i]]);
  }
  if (binding.key !== null) put(value, binding.key, binding.many ? [key] : key);
  return value;
}
function getEntity(view, collection, given, extra) {
  const owner = view.alias + "." + collection.name, binding = collection.get;
  const key = keyOfGiven(collection, given, binding);
  if (key === undefined || key === null) throw new Native.TypeError(owner + ".get needs a key: " + owner + ".get(" + collection.key + ")");
  const known = mapGet(entities, identity(view, collection, key));
  if (known) {
    noteUnlaid(view.name);
    if (known.deleted) return reject(named("NotFound", known.label + " was deleted earlier in this program"));
    if (known.created || known.complete && forced === 0) return resolved(known.proxy);
  }
  if (isObject(given) && extra === undefined && !weakHas(tracked, given) && !weakHas(planned, given)) extra = given;
  const encoded = encode(keyed(binding, key, extra), owner + ".get's arguments", false);
  return promiseThen(request("read", view.name, binding.tool, encoded, forced > 0, 0, null), (answer) => {
    let path = binding.result, value = step(answer.value, path);
    if (binding.many && isArray(value)) {
      path = concat(path, 0);
      value = value[0];
    }
    if (value === undefined || value === null) throw named("NotFound", owner + " has no " + collection.noun + " " + text(key));
    if (typeof value !== "object" || isArray(value)) return value;
    const entity = adopt(view, collection, hasOwn(value, collection.key) ? value[collection.key] : key, value, answer.id, path, true);
    if (!mapHas(entities, identity(view, collection, key))) mapSet(entities, identity(view, collection, key), entity);
    if (entity.deleted) throw named("NotFound", entity.label + " was deleted earlier in this program");
    return entity.proxy;
  });
}
function reject(error) {
  return new Native.Promise((_, no) => no(error));
}
function createEntity(view, collection, given) {
  const owner = view.alias + "." + collection.name, binding = collection.create;
  if (!isObject(given) || isArray(given) || weakHas(planned, given)) {
    throw new Native.TypeError(owner + ".create takes one object of fields");
  }
  const initial = encode(given, owner + ".create's fields", true), value = decode(initial);
  let call = {};
  if (binding.content !== null) put(call, binding.content, binding.many ? [value] : value);
  else {
    const names = objectKeys(value);
    for (let i = 0; i < names.length; i++) {
      put(call, hasOwn(binding.fields, names[i]) ? binding.fields[names[i]] : names[i], value[names[i]]);
    }
  }
  const write = plan(view, binding.tool, encode(call, owner + ".create's arguments", true), "create");
  return resolved(newEntity(view, collection, write, initial, value).proxy);
}
// The entity that a planned creation will make.
function newEntity(view, collection, write, initial, value) {
  const binding = collection.create;
  const number = (mapGet(created, view.name + "\n" + collection.name)?.length ?? 0) + 1;
  const label = "new " + collection.noun + " " + number;
  const path = binding.many ? concat(binding.result, 0) : binding.result;
  const part = (name) => placeholder(write.id, concat(path, name), label + "." + name);
  const key = hasOwn(value, collection.key) ? value[collection.key] : part(collection.key);
  const entity = entityOf(view, collection, key, value);
  entity.created = write;
  entity.part = part;
  entity.label = label;
  entity.seq = write.seq;
  entity.line = write.at[0];
  entity.proxy = wrap(value, { parent: null, key: null, entity });
  write.entity = entity;
  write.collection = collection.name;
  write.initial = initial ?? encode(value, label, true);
  mapSet(entities, identity(view, collection, key), entity);
  const list = mapGet(created, view.name + "\n" + collection.name);
  if (list) add(list, entity);
  else mapSet(created, view.name + "\n" + collection.name, [entity]);
  return entity;
}
function deleteEntity(view, collection, given) {
  const owner = view.alias + "." + collection.name, binding = collection.delete;
  let key = keyOfGiven(collection, given, binding);
  if (key === undefined || key === null) throw new Native.TypeError(owner + ".delete needs a key or an entity");
  const entity = mapGet(entities, identity(view, collection, key));
  if (entity?.deleted) throw named("NotFound", entity.label + " was already deleted in this program");
  const write = plan(view, binding.tool, encode(keyed(binding, key), owner + ".delete's arguments", true), "delete");
  write.collection = collection.name;
  write.key = encode(key, "the key", true);
  write.entity = vanish(view, collection, key);
  return resolved(undefined);
}
function entitiesText() {
  let result = "";
  const done = new Native.Map();
  mapEach(entities, (entity) => {
    if (entity.log === "" || entity.created || mapHas(done, entity)) return;
    mapSet(done, entity, true);
    let fields = "";
    mapEach(entity.fields, (_, name) => { fields += (fields === "" ? "" : ",") + stringify(fit(name)); });
    result += (result === "" ? "" : ",") + "[" + stringify(entity.view.name) + "," + stringify(entity.collection.name) + ","
      + encode(entity.key, "the key", true) + ",[" + entity.sources + "]," + encode(unpatched(entity), entity.label, true) + ",["
      + entity.log + "],[" + fields + "]," + entity.seq + "," + entity.line + "]";
  });
  return result;
}
function writesText() {
  let result = "";
  for (let i = 0; i < writes.length; i++) {
    const write = writes[i], entity = write.entity, made = write.operation === "create";
    result += (i ? "," : "") + "[" + write.id + "," + stringify(write.connector) + "," + stringify(write.tool) + "," + write.encoded + ","
      + write.seq + "," + write.at[0] + "," + write.at[1] + "," + stringify(write.collection) + ',"' + write.operation + '",' + write.key
      + ",[" + (entity && !made ? entity.sources : "") + "]," + write.initial + ","
      + (made ? encode(entity.value, entity.label, true) : "null") + ",[" + (made ? entity.log : "") + "]]";
  }
  return result;
}
