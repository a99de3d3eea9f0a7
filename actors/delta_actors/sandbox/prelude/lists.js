// Lists and searches: pages of entities, with this program's own changes laid over them (plan-apply-undo 5.6).
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
  // The read begins at once; that it was of one page only is worth a note where the page is asked for.
  const read = first();
  const promise = () => started ?? (started = promiseThen(read, (part) => {
    if (part.next !== null) note(owner + ": only the first page was read; `for await` reads all pages");
    return part.items;
  }));
  return awaited(promise, owner + (binding === collection.search ? ".search" : ".list") + "(...)",
    () => pages(view, collection, binding, filter, value));
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
      if (!entity.deleted && !(changed(entity) && matches(entity.value, binding, filter) === false)) add(items, entity.proxy);
    }
    const next = nextPage(binding, value, answer.value, found.length, seen);
    if (next === null) addCreated(view, collection, binding, filter, items);
    noteChanged(view, collection, binding, filter, items);
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
    const fits = matches(list[i].value, binding, filter);
    if (fits === true) add(items, list[i].proxy);
    else if (fits === null) missing++;
  }
  if (missing) {
    note(view.alias + "." + collection.name + ": " + missing + " planned " + collection.noun + (missing === 1 ? "" : "s")
      + " may be missing in a list, the filter can only be judged by the connector");
  }
}
// Entities that fit only since this program changed them are not in the connector's answer.
function noteChanged(view, collection, binding, filter, items) {
  if (!isObject(filter)) return;
  mapEach(entities, (entity) => {
    if (entity.view.name !== view.name || entity.collection.name !== collection.name || entity.created || entity.deleted) return;
    if (!changed(entity) || matches(entity.value, binding, filter) !== true || arrayIndexOf(items, entity.proxy) >= 0) return;
    note(entity.label + ", changed by this program, may be missing in a list");
  });
}
const PAGING = ["limit", "per_page", "perpage", "page_size", "pagesize", "max_results", "maxresults", "first", "count", "page", "offset"];

// true, false, or null where only the connector can judge.
function matches(value, binding, filter) {
  if (filter === undefined) return true;
  if (!isObject(filter)) return null;
  const names = objectKeys(filter);
  for (let i = 0; i < names.length; i++) {
    const wanted = filter[names[i]], field = hasOwn(value, names[i]) ? names[i] : fieldOf(binding, names[i]);
    if (wanted === undefined || names[i] === binding.cursor) continue;
    if (!hasOwn(value, field)) {
      if (arrayIndexOf(PAGING, toLower(names[i])) >= 0) continue;
      return null;
    }
    const has = value[field];
    if (isObject(has) && weakHas(planned, has)) return null;
    const fits = isArray(has) ? !isObject(wanted) && arrayIndexOf(has, wanted) >= 0
      : isArray(wanted) ? arrayIndexOf(wanted, has) >= 0 : isObject(wanted) || isObject(has) ? null : has === wanted;
    if (!fits) return fits;
  }
  return true;
}
