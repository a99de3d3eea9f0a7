// A crossed limit ends the program even where it catches the error.
let settings = createObject(null);
let fatal = null;

function named(name, message) {
  const error = new Native.Error(message);
  put(error, "name", name);
  return error;
}
function crossed(limit, message) {
  if (fatal === null) fatal = { kind: "limit", name: "LimitError", message, limit, at: here() };
  return named("LimitError", message);
}
