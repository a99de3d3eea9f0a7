import base64
import json
import random

import pytest

from delta_protocol.tokens import estimate, fits, prefix
from tests.gateway.counting import EXACT, tokens

SOURCE = random.Random(7)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SAMPLES = {
    "prose": "Nothing is changed before all checks pass; then the calls are made, one after another. " * 40,
    "json": json.dumps([{"id": number, "name": f"row {number}", "ok": True} for number in range(300)]),
    "numbers": json.dumps([SOURCE.random() for _ in range(500)]),
    "base64": base64.b64encode(SOURCE.randbytes(4000)).decode(),
    "urlsafe": base64.urlsafe_b64encode(SOURCE.randbytes(4000)).decode(),
    "hexadecimal": SOURCE.randbytes(3000).hex(),
    "random": "".join(SOURCE.choices(LETTERS, k=4000)),
    "german": "Die Geschwindigkeitsbegrenzung wird häufig übertreten, weil Straßen unübersichtlich sind. " * 30,
    "chinese": "请在下一次会议之前更新所有票据的状态，并关闭那些已经修复的问题。" * 40,
    "emoji": "🎉👩‍👩‍👧‍👦✅🚀" * 100,
    "marks": "!@#$%^&*()_+{}|:<>?~`-=[]\\;',./" * 60,
    "escapes": json.dumps('\x01\x02"\\\n\t' * 400),
    "code": "def f(x: int) -> int:\n    return [y ** 2 for y in range(x) if y % 2]\n\n" * 40,
}


@pytest.mark.skipif(not EXACT, reason="needs the tokenizer bpe-openai")
@pytest.mark.parametrize("name", SAMPLES)
def test_the_estimate_is_never_below_the_true_count_nor_far_above(name: str) -> None:
    true = tokens(SAMPLES[name])
    assert true <= estimate(SAMPLES[name]) <= 2.5 * true


@pytest.mark.parametrize("name", SAMPLES)
def test_a_prefix_fits_and_is_not_wasteful(name: str) -> None:
    text = SAMPLES[name]
    kept = prefix(text, 200)
    assert 0 < kept < len(text)
    assert fits(text[:kept], 202)
    assert estimate(text[:kept]) >= 150
    assert not fits(text, 200)
    assert fits(text, estimate(text))
