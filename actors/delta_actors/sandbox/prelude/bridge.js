// The only way out: the host pumps text out of here and settles answers in. There is no host function.
const waiting = new Native.Map(); // id -> { resolve, reject, kind, stack, connector, tool, plan }
let calls = 0, reading = 0, sent = "", outcome = null, announced = false, hurried = false;
let consoleLines = "", consoleBytes = 0;

// Returns a promise of { id, value } of a read. `plan` is called instead where the host finds that it is a write.
function request(kind, connector, tool, argumentsText, fresh, ms, plan) {
  if (calls >= settings.host_calls) throw crossed("host_calls", "the program made more than " + settings.host_calls + " calls");
  if (argumentsText.length > settings.argument) {
    throw crossed("argument", "the arguments of " + connector + "." + tool + " have " + argumentsText.length
      + " characters; the limit is " + settings.argument);
  }
  const stack = new Native.Error().stack, id = ++calls;
  const promise = new Native.Promise((resolve, reject) => {
    mapSet(waiting, id, { resolve, reject, kind, stack, connector, tool, plan });
  });
  if (kind === "read") {
    reading++;
    noteUnlaid(connector);
  }
  sent += (sent === "" ? "" : ",") + "[" + id + ',"' + kind + '",' + stringify(connector) + "," + stringify(tool) + "," + fresh + ","
    + argumentsText + "," + ms + "]";
  return promise;
}
function hostError(entry, told) {
  const error = named(told.name, told.message);
  put(error, "connector", entry.connector);
  put(error, "tool", entry.tool);
  put(error, "line", place(entry.stack)[0]);
  defineProperty(error, "stack", data(entry.stack));
  return error;
}
function settle(source) {
  const list = parse(source);
  const tagged = indexOf(source, "\\u0001") >= 0;
  for (let i = 0; i < list.length; i++) {
    const id = list[i][0], status = list[i][1], entry = mapGet(waiting, id);
    if (!entry) continue;
    mapDelete(waiting, id);
    if (entry.kind === "read") reading--;
    if (status === 1) entry.resolve({ id, value: tagged ? revive(list[i][2]) : list[i][2], __proto__: null });
    else if (status === 2) {
      try {
        entry.resolve({ id, plan: entry.plan(place(entry.stack)), __proto__: null });
      } catch (error) {
        entry.reject(error);
      }
    } else entry.reject(hostError(entry, list[i][2]));
  }
}
function failure(error) {
  let name = "Error", message = "", at = [0, 0], kind = "runtime";
  try {
    if (typeof error === "function") message = "thrown function";
    else if (isObject(error)) {
      at = weakGet(places, error) ?? place(error.stack);
      try { name = text(error.name); } catch { name = "Error"; }
      try { message = text(error.message); } catch { message = "(unprintable)"; }
      if (hasOwn(error, "connector") && hasOwn(error, "tool")) kind = "host";
    } else message = "thrown " + (typeof error === "symbol" ? "symbol" : typeof error + ": " + text(error));
  } catch {
    message = message || "(unprintable thrown value)";
  }
  if (name === "InternalError" && message === "out of memory") return { kind: "limit", name: "LimitError", message, limit: "memory", at };
  if (name === "NotYetReal") kind = "not_yet_real";
  return { kind, name, message, limit: "", at };
}
function failedText(error) {
  const name = fit(substring(error.name, 0, 100)), message = fit(substring(error.message, 0, 4000));
  let shown = message;
  try { shown = readable(message); } catch {}
  return '{"type":"error","kind":"' + error.kind + '","name":' + stringify(name) + ',"message":' + stringify(shown) + ',"line":' + error.at[0]
    + ',"column":' + error.at[1] + ',"limit":' + stringify(error.limit) + ',"console":[' + consoleLines + "]}";
}
function returnedText() {
  try {
    const returned = encode(outcome.value, "the returned value", true);
    if (returned.length <= settings.result) return returned;
    throw crossed("result", "the returned value has " + returned.length + " characters; the limit is " + settings.result
      + "; return less, or a part of it");
  } catch (error) {
    if (fatal !== null) {
      if (!fatal.at[0]) fatal.at = back;
    } else if (isObject(error) && !weakHas(places, error) && !place(error.stack)[0]) located(error, back);
    throw error;
  }
}
function finishedText() {
  const returned = returnedText();
  let list = "";
  mapEach(notes, (_, message) => { list += (list === "" ? "" : ",") + stringify(fit(message)); });
  return '{"type":"ok","returned":' + returned + ',"entities":[' + entitiesText() + '],"writes":[' + writesText()
    + '],"console":[' + consoleLines + '],"notes":[' + list + "]}";
}
function pump() {
  if (fatal !== null) return "D" + failedText(fatal);
  if (sent !== "") {
    const batch = sent;
    sent = "";
    return (outcome === null ? "C[" : "c[") + batch + "]";
  }
  if (outcome !== null) {
    if (outcome.error) return "D" + failedText(outcome.error);
    if (reading > 0 && !hurried) {
      if (announced) return "W";
      announced = true;
      return "E";
    }
    if (reading > 0) note(reading + (reading === 1 ? " read was" : " reads were") + " not awaited and had no answer when the program ended");
    try {
      return "D" + finishedText();
    } catch (error) {
      return "D" + failedText(fatal ?? failure(error));
    }
  }
  return waiting.size ? "W" : "X";
}
function finish() {
  hurried = true;
}
function log(...values) {
  let line = "";
  for (let i = 0; i < values.length; i++) line += (i ? " " : "") + printed(values[i]);
  consoleBytes += line.length;
  if (consoleBytes > settings.console) {
    throw crossed("console", "the program wrote more than " + settings.console + " characters to the console");
  }
  consoleLines += (consoleLines === "" ? "" : ",") + stringify(fit(line));
}
function printed(value) {
  if (typeof value === "string") return readable(value);
  if (isObject(value)) {
    if (weakHas(planned, value)) return "\u27E8" + weakGet(planned, value).label + "\u27E9";
    if (instance(value, Native.Promise)) return "a Promise (missing await?)";
    if (instance(value, Native.Error)) return text(value.name) + ": " + text(value.message);
    try {
      return readable(stringify(value) ?? text(value));
    } catch {
      return text(value);
    }
  }
  return text(value);
}
// A seeded generator (xorshift128): the same program with the same answers draws the same numbers.
function generator(seed) {
  let a = seed | 0 || 1, b = seed / 4294967296 | 0 || 2, c = 0x9e3779b9 | 0, d = 0x243f6a88;
  const next = () => {
    const t = d ^ d << 11;
    d = c; c = b; b = a;
    a = a ^ a >>> 19 ^ t ^ t >>> 8;
    return a >>> 0;
  };
  for (let i = 0; i < 16; i++) next();
  return () => ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
}
function sleep(ms) {
  const wanted = +ms;
  if (!(wanted >= 0 && wanted <= 60000)) throw new Native.RangeError("sleep takes 0 to 60000 milliseconds");
  return promiseThen(request("sleep", "", "", "{}", false, wanted, null), () => undefined);
}
function disable() {
  const refuse = (what) => function () { throw new Native.TypeError(what + " is switched off: a program is checked before it runs"); };
  const kinds = [Native.Function, getPrototypeOf(async function () {}).constructor, getPrototypeOf(function* () {}).constructor,
    getPrototypeOf(async function* () {}).constructor];
  for (let i = 0; i < kinds.length; i++) {
    const stub = refuse("Function");
    stub.prototype = kinds[i].prototype;
    defineProperty(kinds[i].prototype, "constructor", { value: stub, writable: false, enumerable: false, configurable: false });
    if (i === 0) globalThis.Function = stub;
  }
  globalThis.eval = refuse("eval");
  delete globalThis.performance;
}
// There is no Intl: what its arguments ask for would be passed over in silence.
function refuseLocales() {
  const owners = [[Native.Date, ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]], [Native.Number, ["toLocaleString"]],
    [Native.BigInt, ["toLocaleString"]], [Native.String, ["localeCompare", "toLocaleLowerCase", "toLocaleUpperCase"]]];
  for (let i = 0; i < owners.length; i++) {
    const prototype = owners[i][0].prototype, names = owners[i][1];
    for (let j = 0; j < names.length; j++) {
      const name = names[j], native = prototype[name], own = name === "localeCompare" ? 1 : 0;
      defineProperty(prototype, name, { value: { [name](...values) {
        if (values[own] !== undefined || values[own + 1] !== undefined) {
          throw new Native.TypeError(name + " knows no locales or options here (there is no Intl): call it without, or format the value yourself");
        }
        return reflect.apply(native, this, arraySlice(values, 0, own));
      } }[name], writable: true, enumerable: false, configurable: true });
    }
  }
}
function start(program, source) {
  settings = parse(source);
  calls = reading = sequence = recorded = consoleBytes = 0;
  sent = consoleLines = "";
  outcome = fatal = null;
  writes = [];
  forced = 0;
  const kept = [waiting, notes, entities, patches, unlaid, created, placeholders, tokens];
  for (let i = 0; i < kept.length; i++) mapClear(kept[i]);
  announced = hurried = false;
  shifts = settings.shifts;
  arithmetic = settings.arithmetic;
  back = [0, 0];
  mark = "\uE000" + settings.mark + ":";
  Math.random = generator(settings.seed);
  const values = [];
  for (let i = 0; i < settings.namespaces.length; i++) add(values, namespace(settings.namespaces[i]));
  add(values, createConsole());
  add(values, sleep);
  add(values, fresh);
  add(values, check);
  add(values, plus);
  add(values, returning);
  try {
    promiseThen(reflect.apply(program, undefined, values), (value) => { outcome = { value, error: null }; },
      (error) => { outcome = { value: null, error: fatal ?? failure(error) }; });
  } catch (error) {
    outcome = { value: null, error: fatal ?? failure(error) };
  }
}
function createConsole() {
  return { log, info: log, warn: log, error: log, debug: log, trace: log, dir: log, table: log };
}
disable();
refuseLocales();
guardSearch();
defineProperty(Native.BigInt.prototype, "toJSON", { value: function toJSON() { return bigText(this); }, writable: true, configurable: true });
globalThis.__bridge = [start, settle, pump, finish];
