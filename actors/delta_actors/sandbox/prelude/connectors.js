// What a program sees of the connectors: tools as functions, collections of entities (three-tools 5 to 7).
const entities = new Native.Map(); // connector/collection/key -> entity
const created = new Native.Map(); // connector/collection -> list of created entities
let writes = [], forced = 0;

function fresh(read) {
  if (typeof read !== "function") throw new Native.TypeError("fresh takes a function: await fresh(() => tickets.ticket.get(id))");
  forced++;
  try {
    return read();
  } finally {
    forced--;
  }
}
function distance(a, b) {
  let row = [];
  for (let j = 0; j <= b.length; j++) add(row, j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      add(next, min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length];
}
function nearest(name, names) {
  const scored = [];
  const wanted = toLower(substring(name, 0, 60));
  for (let i = 0; i < names.length; i++) {
    const known = toLower(names[i]);
    const score = indexOf(known, wanted) >= 0 || indexOf(wanted, known) >= 0 ? 1 : distance(wanted, substring(known, 0, 60));
    if (score <= max(2, wanted.length / 2)) add(scored, [score, names[i]]);
  }
  arrayMethods.sort(scored, (a, b) => a[0] - b[0]);
  let list = "";
  for (let i = 0; i < scored.length && i < 5; i++) list += (i ? ", " : "") + scored[i][1];
  return list;
}
function unknown(view, owner, name, names) {
  const near = nearest(name, names);
  const reason = names.length === 0 && view.detail ? " (" + view.detail + ")" : "";
  return named("NotFound", owner + " has no '" + name + "'" + reason + (near ? "; nearest: " + near : "")
    + '. Look it up: delta_read {refs: ["' + view.name + '"]}');
}
function sealed(owner, view, names, table) {
  const refuse = () => { throw new Native.TypeError(owner + " cannot be changed"); };
  return new Native.Proxy(table, {
    get(_, key) {
      if (typeof key === "symbol") return undefined;
      if (hasOwn(table, key)) return table[key];
      if (key === "then" || key === "toJSON" || key === "constructor" || key === "toString" || key === "valueOf") return undefined;
      throw unknown(view, owner, key, names);
    },
    set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
    getPrototypeOf: () => null,
  });
}
function namespace(view) {
  const table = {}, names = [];
  for (let i = 0; i < view.tools.length; i++) {
    const tool = view.tools[i], call = toolFunction(view, tool);
    put(table, tool.name, call);
    put(table, tool.alias, call);
    add(names, tool.alias);
  }
  for (let i = 0; i < view.collections.length; i++) {
    const collection = view.collections[i];
    if (!hasOwn(table, collection.name)) {
      put(table, collection.name, collectionObject(view, collection));
      add(names, collection.name);
    }
  }
  return sealed(view.alias, view, names, table);
}
function argumentsOf(view, tool, given) {
  const value = given.length === 0 ? {} : given[0];
  if (!isObject(value) || isArray(value) || given.length > 1 || weakHas(planned, value)) {
    const hint = tool.required.length ? "{" + join(tool.required, ", ") + "}" : "{...}";
    throw new Native.TypeError(view.alias + "." + tool.alias + " takes one object: " + view.alias + "." + tool.alias + "(" + hint + ")");
  }
  return value;
}
function toolFunction(view, tool) {
  return (...given) => {
    const label = view.alias + "." + tool.alias;
    if (tool.fault) throw named("Invalid", label + " cannot be used: " + tool.fault);
    if (tool.effect === "off") throw named("Refused", label + " is switched off by the configuration");
    const value = argumentsOf(view, tool, given);
    if (tool.effect === "write") {
      return resolved(placeholder(plan(view, tool.name, encode(value, label + "'s arguments", true), "call").id, [], "result of " + label));
    }
    return readTool(view, tool, value, label);
  };
}
function readTool(view, tool, value, label) {
  const holes = tool.effect === "ask";
  const encoded = encode(value, label + "'s arguments", holes);
  const write = (at) => placeholder(plan(view, tool.name, encoded, "call", at).id, [], "result of " + label);
  if (pendingWrites(view)) note("reads of " + view.alias + " by tool name show the state before this program's changes");
  return promiseThen(request("read", view.name, tool.name, encoded, forced > 0, 0, write),
    (answer) => hasOwn(answer, "plan") ? answer.plan : overlaid(view, tool, value, answer.value));
}
function pendingWrites(view) {
  for (let i = 0; i < writes.length; i++) if (writes[i].connector === view.name && writes[i].operation === "call") return true;
  return false;
}
// A plain copy of a known entity as this program has it, where a tool by name reads one.
function overlaid(view, tool, given, value) {
  for (let i = 0; i < view.collections.length; i++) {
    const collection = view.collections[i], binding = collection.get;
    if (!binding || binding.tool !== tool.name || binding.many || binding.key === null || !hasOwn(given, binding.key)) continue;
    const entity = mapGet(entities, identity(view, collection, given[binding.key]));
    if (!entity) continue;
    if (entity.deleted) throw named("NotFound", entity.label + " was deleted earlier in this program");
    if (entity.seq && binding.result.length === 0) return decode(encode(entity.value, entity.label, true));
  }
  return value;
}
// Records a write call. Returns its record.
function plan(view, tool, encoded, operation, at) {
  if (writes.length >= settings.planned_calls) {
    throw crossed("planned_calls", "the program plans more than " + settings.planned_calls + " calls");
  }
  if (encoded.length > settings.argument) {
    throw crossed("argument", "the arguments of " + view.alias + "." + tool + " have " + encoded.length + " characters; the limit is "
      + settings.argument);
  }
  const write = {
    id: writes.length + 1, connector: view.name, tool, encoded, operation, seq: nextSequence(), at: at ?? here(), collection: "",
    entity: null, initial: "null", key: "null",
  };
  add(writes, write);
  return write;
}
function identity(view, collection, key) {
  return view.name + "\n" + collection.name + "\n" + (typeof key === "string" ? key : typeof key === "bigint" ? bigText(key) : encode(key, "the key", true));
}
function entityOf(view, collection, key, value) {
  return {
    view, collection, key, value, proxy: null, label: view.alias + "." + collection.name + " " + keyLabel(key), log: "", seq: 0, line: 0,
    fields: new Native.Map(), sources: "", complete: true, deleted: false, dropped: new Native.Map(), created: null, keyField: collection.key, part: null,
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
  } else if (entity.deleted) {
    return entity;
  } else if (entity.seq === 0 && (complete || !entity.complete)) {
    refresh(entity.value, value);
    entity.sources = sourceText(id, path);
    entity.complete = complete;
  } else if (complete && !entity.complete) {
    const keys = objectKeys(value);
    for (let i = 0; i < keys.length; i++) {
      if (!hasOwn(entity.value, keys[i]) && !mapHas(entity.dropped, keys[i])) put(entity.value, keys[i], value[keys[i]]);
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
  if (collection.get) offer("get", (key, extra) => getEntity(view, collection, key, extra));
  if (collection.list) offer("list", (filter) => listing(view, collection, collection.list, filter));
  if (collection.search) offer("search", (query) => listing(view, collection, collection.search, query));
  if (collection.create) offer("create", (value) => createEntity(view, collection, value));
  if (collection.update && collection.get) {
    offer("update", (key, fields) => promiseThen(getEntity(view, collection, key), (entity) => {
      const names = objectKeys(fields);
      for (let i = 0; i < names.length; i++) entity[names[i]] = fields[names[i]];
      return entity;
    }));
  }
  if (collection.delete) offer("delete", (key) => deleteEntity(view, collection, key));
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
// A promise of the first page, and an asynchronous iteration over all pages.
function listing(view, collection, binding, filter) {
  const owner = view.alias + "." + collection.name, value = {};
  if (isObject(filter) && !weakHas(planned, filter)) {
    const names = objectKeys(filter);
    for (let i = 0; i < names.length; i++) {
      put(value, hasOwn(binding.fields, names[i]) ? binding.fields[names[i]] : names[i], filter[names[i]]);
    }
  } else if (filter !== undefined) {
    if (binding.first === null) throw new Native.TypeError(owner + " takes an object of filters");
    put(value, binding.first, filter);
  }
  const first = () => page(view, collection, binding, filter, value, 0);
  let started = null;
  const promise = () => started ?? (started = promiseThen(first(), (part) => {
    if (part.next !== null) note(owner + ": only the first page was read; `for await` reads all pages");
    return part.items;
  }));
  promise();
  const result = {
    then: (yes, no) => promiseThen(promise(), yes, no),
    catch: (no) => promiseThen(promise(), undefined, no),
    finally: (act) => promiseThen(promise(), (items) => { act(); return items; }, (error) => { act(); throw error; }),
  };
  put(result, asyncIterator, () => pages(view, collection, binding, filter, value));
  return result;
}
function pages(view, collection, binding, filter, value) {
  let part = null, at = 0, number = 0, seen = 0;
  const next = () => {
    if (part !== null && at < part.items.length) return resolved({ value: part.items[at++], done: false });
    if (part !== null && (part.next === null || part.count === 0)) return resolved({ value: undefined, done: true });
    const query = part === null ? value : part.next;
    return promiseThen(page(view, collection, binding, filter, query, seen), (got) => {
      part = got;
      at = 0;
      number++;
      seen += got.count;
      return next();
    });
  };
  const result = { next, return: () => resolved({ value: undefined, done: true }) };
  put(result, asyncIterator, () => result);
  return result;
}
function page(view, collection, binding, filter, value, seen) {
  const encoded = encode(value, view.alias + "." + collection.name + "'s filter", false);
  return promiseThen(request("read", view.name, binding.tool, encoded, forced > 0, 0, null), (answer) => {
    const found = step(answer.value, binding.result);
    if (!isArray(found)) return { items: found === undefined ? [] : found, next: null, count: 0 };
    const items = [];
    for (let i = 0; i < found.length; i++) {
      const item = found[i];
      if (!isObject(item) || !hasOwn(item, collection.key)) {
        add(items, item);
        continue;
      }
      const entity = adopt(view, collection, item[collection.key], item, answer.id, concat(binding.result, i), false);
      if (!entity.deleted) add(items, entity.proxy);
    }
    const next = nextPage(binding, value, answer.value, found.length, seen);
    if (next === null) addCreated(view, collection, binding, filter, items);
    return { items, next, count: found.length };
  });
}
const CURSORS = ["next_cursor", "nextCursor", "next_page_token", "nextPageToken", "next_page", "nextPage", "cursor", "next"];
function nextPage(binding, value, answer, count, seen) {
  if (binding.cursor === null) return null;
  let cursor;
  if (isObject(answer) && !isArray(answer)) {
    for (let i = 0; i < CURSORS.length; i++) {
      if (hasOwn(answer, CURSORS[i])) {
        cursor = answer[CURSORS[i]];
        if (cursor === null || cursor === "" || cursor === false) return null;
        break;
      }
    }
  }
  if (cursor === undefined) {
    const name = toLower(binding.cursor);
    if (count === 0) return null;
    if (indexOf(name, "page") >= 0 && indexOf(name, "token") < 0) cursor = (+value[binding.cursor] || 1) + 1;
    else if (indexOf(name, "offset") >= 0 || name === "skip" || name === "start") cursor = (+value[binding.cursor] || 0) + count;
    else return null;
  }
  const next = {};
  const names = objectKeys(value);
  for (let i = 0; i < names.length; i++) put(next, names[i], value[names[i]]);
  return put(next, binding.cursor, cursor);
}
// Entities created in this program belong into a list only where the filter can be judged here.
function addCreated(view, collection, binding, filter, items) {
  const list = mapGet(created, view.name + "\n" + collection.name);
  if (!list) return;
  let missing = 0;
  for (let i = 0; i < list.length; i++) {
    if (list[i].deleted) continue;
    const fits = matches(list[i].value, filter);
    if (fits === true) add(items, list[i].proxy);
    else if (fits === null) missing++;
  }
  if (missing) {
    note(view.alias + "." + collection.name + ": " + missing + " planned " + collection.noun + (missing === 1 ? "" : "s")
      + " may be missing in a list, the filter can only be judged by the connector");
  }
}
function matches(value, filter) {
  if (filter === undefined) return true;
  if (!isObject(filter)) return null;
  const names = objectKeys(filter);
  for (let i = 0; i < names.length; i++) {
    const wanted = filter[names[i]];
    if (wanted === undefined) continue;
    if (!hasOwn(value, names[i])) return null;
    const has = value[names[i]];
    if (isObject(has) && weakHas(planned, has)) return null;
    const fits = isArray(has) ? !isObject(wanted) && arrayIndexOf(has, wanted) >= 0
      : isArray(wanted) ? arrayIndexOf(wanted, has) >= 0 : isObject(wanted) || isObject(has) ? null : has === wanted;
    if (!fits) return fits;
  }
  return true;
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
  write.initial = initial;
  mapSet(entities, identity(view, collection, key), entity);
  const list = mapGet(created, view.name + "\n" + collection.name);
  if (list) add(list, entity);
  else mapSet(created, view.name + "\n" + collection.name, [entity]);
  return resolved(entity.proxy);
}
function deleteEntity(view, collection, given) {
  const owner = view.alias + "." + collection.name, binding = collection.delete;
  let key = keyOfGiven(collection, given, binding);
  if (key === undefined || key === null) throw new Native.TypeError(owner + ".delete needs a key or an entity");
  const name = identity(view, collection, key);
  let entity = mapGet(entities, name);
  if (entity?.deleted) throw named("NotFound", entity.label + " was already deleted in this program");
  const write = plan(view, binding.tool, encode(keyed(binding, key), owner + ".delete's arguments", true), "delete");
  write.collection = collection.name;
  write.key = encode(key, "the key", true);
  if (!entity) {
    entity = entityOf(view, collection, key, {});
    mapSet(entities, name, entity);
  }
  entity.deleted = true;
  write.entity = entity;
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
      + encode(entity.key, "the key", true) + ",[" + entity.sources + "]," + encode(entity.value, entity.label, true) + ",["
      + entity.log + "]," + entity.complete + ",[" + fields + "]," + entity.seq + "," + entity.line + "]";
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
