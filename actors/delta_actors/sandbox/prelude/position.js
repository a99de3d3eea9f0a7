// Where in the submitted text something happened. `shifts` tells, per line, what was inserted before a column.
let shifts = createObject(null);
const SCRIPT = "eval_script:";

function digits(source, from) {
  let end = from;
  while (end < source.length) {
    const code = charCode(source, end);
    if (code < 48 || code > 57) break;
    end++;
  }
  return end;
}
function original(line, column) {
  const list = shifts[line];
  let moved = 0;
  if (list) for (let i = 0; i < list.length; i += 2) if (list[i] < column) moved += min(list[i + 1], column - list[i]);
  return max(1, column - moved);
}
// [line, column] in the program's evaluated text of the innermost program frame of a stack, or [0, 0].
function rawPlace(stack) {
  if (typeof stack !== "string") return [0, 0];
  const at = indexOf(stack, SCRIPT);
  if (at < 0) return [0, 0];
  const from = at + SCRIPT.length, middle = digits(stack, from);
  const end = digits(stack, middle + 1);
  return [+substring(stack, from, middle), +substring(stack, middle + 1, end)];
}
function place(stack) {
  const raw = rawPlace(stack);
  return [raw[0], raw[0] ? original(raw[0], raw[1]) : 0];
}
let standing = [0, 0]; // where the call was made that goes on in a promise job, which has no frame of the program's
function here() {
  const at = place(new Native.Error().stack);
  return at[0] ? at : standing;
}
function standingAt(at, act) {
  standing = at;
  try {
    return act();
  } finally {
    standing = [0, 0];
  }
}
// Errors that come to light later than what is wrong know its place from here.
const places = new Native.WeakMap();
function located(error, at) {
  if (at[0]) weakSet(places, error, at);
  return error;
}
// Where the program returned: what is wrong with a returned value is found after it ended.
let back = [0, 0];
function returning(value) {
  back = here();
  return value;
}
