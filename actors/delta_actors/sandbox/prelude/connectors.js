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
  const has = near ? "; nearest: " + near : names.length && names.length <= 12 ? "; it has " + join(names, ", ") : "";
  return named("NotFound", owner + " has no '" + name + "'" + reason + has
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
  return (...values) => {
    const label = view.alias + "." + tool.alias;
    if (tool.fault) throw named("Invalid", label + " cannot be used: " + tool.fault);
    if (tool.effect === "off") throw named("Refused", label + " is switched off by the configuration");
    const value = argumentsOf(view, tool, values);
    if (tool.effect === "write") return given(resolved(written(view, tool, encode(value, label + "'s arguments", true), label)), label + "(...)");
    return given(readTool(view, tool, value, label), label + "(...)");
  };
}
function readTool(view, tool, value, label) {
  const holes = tool.effect === "ask";
  const encoded = encode(value, label + "'s arguments", holes);
  const write = (at) => written(view, tool, encoded, label, at);
  return promiseThen(request("read", view.name, tool.name, encoded, forced > 0, 0, write),
    (answer) => hasOwn(answer, "plan") ? answer.plan : overlaid(view, tool, value, answer.value));
}
// Plans exactly this call, lays it over later reads, and returns what stands for its result.
function written(view, tool, encoded, label, at) {
  const write = plan(view, tool.name, encoded, "call", at);
  overlayCall(view, tool.name, write);
  return placeholder(write.id, [], "result of " + label);
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
