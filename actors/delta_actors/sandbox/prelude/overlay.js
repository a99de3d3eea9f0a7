// Reads after planned calls (plan-apply-undo 5.6): what a call by tool name will do is laid over the entities it is about.
const unlaid = new Native.Map(); // connector -> tool -> true, of planned calls whose effect on reads is not known here
const patches = new Native.Map(); // identity -> field -> value, of entities that calls by tool name update

function fieldOf(binding, name) {
  const fields = objectKeys(binding.fields);
  for (let i = 0; i < fields.length; i++) if (binding.fields[fields[i]] === name) return fields[i];
  return name;
}
function single(binding, given) {
  return binding !== null && !binding.many && binding.key !== null && hasOwn(given, binding.key);
}
function overlayCall(view, tool, write) {
  let known = false;
  for (let i = 0; i < view.collections.length; i++) {
    const collection = view.collections[i];
    const is = (binding) => binding && binding.tool === tool;
    if (!is(collection.update) && !is(collection.delete) && !is(collection.create)) continue;
    const given = decode(write.encoded);
    known = true;
    if (is(collection.update) && single(collection.update, given)) patch(view, collection, given);
    else if (is(collection.delete) && single(collection.delete, given)) vanish(view, collection, given[collection.delete.key]);
    else if (is(collection.create) && collection.create.content === null && !collection.create.many) {
      const value = {}, names = objectKeys(given);
      for (let j = 0; j < names.length; j++) put(value, fieldOf(collection.create, names[j]), given[names[j]]);
      write.operation = "create";
      newEntity(view, collection, write, null, value);
    } else known = false;
  }
  if (known) return;
  const tools = mapGet(unlaid, view.name) ?? new Native.Map();
  mapSet(tools, tool, true);
  mapSet(unlaid, view.name, tools);
}
function noteUnlaid(connector) {
  const tools = mapGet(unlaid, connector);
  if (tools) mapEach(tools, (_, tool) => note("reads of " + connector + " do not show what " + tool + " will change"));
}
function patch(view, collection, given) {
  const binding = collection.update, key = given[binding.key], name = identity(view, collection, key);
  const content = binding.content !== null && isObject(given[binding.content]) ? given[binding.content] : given;
  const laid = mapGet(patches, name) ?? createObject(null), names = objectKeys(content);
  for (let i = 0; i < names.length; i++) {
    const field = fieldOf(binding, names[i]);
    if (names[i] !== binding.key && (hasOwn(binding.fields, field) || arrayIndexOf(collection.fields, field) >= 0)) {
      laid[field] = content[names[i]];
    }
  }
  mapSet(patches, name, laid);
  const entity = mapGet(entities, name);
  if (entity) lay(entity, laid);
}
// Puts patched fields into an entity's value; what was there is kept, since these changes are the call's and not the entity's.
function lay(entity, laid) {
  const names = objectKeys(laid);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], own = hasOwn(entity.value, name);
    if (!mapHas(entity.patched, name)) mapSet(entity.patched, name, { own, value: own ? entity.value[name] : undefined });
    put(entity.value, name, decode(encode(laid[name], name, true)));
  }
}
function layKnown(entity) {
  const laid = mapGet(patches, identity(entity.view, entity.collection, entity.key));
  if (laid) lay(entity, laid);
}
// Before the program itself changes a patched field: the change is the entity's now, and comes after the call.
function claim(entity, field, at) {
  const kept = mapGet(entity.patched, field);
  if (!kept) return;
  mapSet(entity.claimed, field, { own: kept.own, value: kept.value, at });
  mapDelete(entity.patched, field);
  entity.seq = nextSequence();
  logged(entity, "set", [field], encode(entity.value[field], field, true), 0, 0, at[0]);
}
// What is set back after a call by tool name changed it would look like no change at all, and the call would have the last word.
function refuseSetBack(entity) {
  mapEach(entity.claimed, (kept, field) => {
    const own = hasOwn(entity.value, field);
    if (own !== kept.own || own && encode(entity.value[field], field, true) !== encode(kept.value, field, true)) return;
    throw located(named("Refused", entity.label + "." + field
      + " is set back to what it was before a planned call by tool name; leave that call out"), kept.at);
  });
}
// An entity's value without what calls by tool name will change.
function unpatched(entity) {
  refuseSetBack(entity);
  if (!entity.patched.size) return entity.value;
  const copy = {}, names = objectKeys(entity.value);
  for (let i = 0; i < names.length; i++) {
    const kept = mapGet(entity.patched, names[i]);
    if (!kept) put(copy, names[i], entity.value[names[i]]);
    else if (kept.own) put(copy, names[i], kept.value);
  }
  return copy;
}
function changed(entity) {
  return entity.seq !== 0 || entity.patched.size > 0;
}
function vanish(view, collection, key) {
  const name = identity(view, collection, key);
  let entity = mapGet(entities, name);
  if (!entity) {
    entity = entityOf(view, collection, key, {});
    mapSet(entities, name, entity);
  }
  entity.deleted = true;
  return entity;
}
// The answer of a read by tool name as this program has it: that of `get`, `list` and `search` follows its changes.
function overlaid(view, tool, given, value) {
  for (let i = 0; i < view.collections.length; i++) {
    const collection = view.collections[i], get = collection.get;
    if (get && get.tool === tool.name && single(get, given)) return overlaidOne(view, collection, given[get.key], value);
    if (collection.list && collection.list.tool === tool.name) return overlaidList(view, collection, collection.list, value);
    if (collection.search && collection.search.tool === tool.name) return overlaidList(view, collection, collection.search, value);
  }
  if (pending(view)) note("reads of " + view.alias + "." + tool.alias + " show the state before this program's changes");
  return value;
}
function overlaidOne(view, collection, key, value) {
  const name = identity(view, collection, key), entity = mapGet(entities, name), laid = mapGet(patches, name);
  if (entity?.deleted) throw named("NotFound", entity.label + " was deleted earlier in this program");
  const found = step(value, collection.get.result);
  if (isObject(found) && !isArray(found)) merge(found, entity && changed(entity) ? entity.value : laid, true);
  return value;
}
function overlaidList(view, collection, binding, value) {
  const found = step(value, binding.result);
  if (!isArray(found)) return value;
  const kept = [];
  for (let i = 0; i < found.length; i++) {
    const item = found[i];
    if (isObject(item) && hasOwn(item, collection.key)) {
      const name = identity(view, collection, item[collection.key]), entity = mapGet(entities, name);
      if (entity?.deleted) continue;
      merge(item, entity && changed(entity) ? entity.value : mapGet(patches, name), false);
    }
    add(kept, item);
  }
  for (let i = 0; i < kept.length; i++) put(found, i, kept[i]);
  found.length = kept.length;
  if (mapHas(created, view.name + "\n" + collection.name)) {
    note(view.alias + "." + binding.tool + ": what this program creates is not in the answer; use " + view.alias + "." + collection.name + ".list()");
  }
  return value;
}
function merge(target, source, whole) {
  if (!source) return;
  const names = objectKeys(source);
  for (let i = 0; i < names.length; i++) {
    if (whole || hasOwn(target, names[i])) put(target, names[i], decode(encode(source[names[i]], names[i], true)));
  }
}
function pending(view) {
  for (let i = 0; i < writes.length; i++) if (writes[i].connector === view.name) return true;
  let found = false;
  mapEach(entities, (entity) => { found ||= entity.view.name === view.name && entity.log !== ""; });
  return found;
}
