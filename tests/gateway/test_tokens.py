import base64
import json
import random
import uuid

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
    "dates": json.dumps([f"2026-0{month}-1{day}T10:{day}5:00Z" for month in range(1, 10) for day in range(10)]),
    "identifiers": json.dumps([str(uuid.UUID(int=SOURCE.getrandbits(128))) for _ in range(100)]),
    "indented": json.dumps([{"id": number, "labels": ["a", "b"], "done": None} for number in range(100)], indent=2),
    "paths": "\n".join(f"/home/user/project/src/components/widget_{number}/index.test.tsx" for number in range(99)),
    "french": "L'État a décidé que les élèves concernés recevront une réponse détaillée à leurs demandes. " * 30,
    "russian": "Скорость ограничена, потому что дорога плохо видна, и никто не знает, когда её починят. " * 30,
    "signatures": "create_pull_request!({owner, repo, title, body?, draft?: boolean, labels?: string[]}): {id, url}\n"
    * 40,
    "code": "def f(x: int) -> int:\n    return [y ** 2 for y in range(x) if y % 2]\n\n" * 40,
}


@pytest.mark.skipif(not EXACT, reason="needs the tokenizer bpe-openai")
@pytest.mark.parametrize("name", SAMPLES)
def test_the_estimate_is_never_below_the_true_count_nor_far_above(name: str) -> None:
    true = tokens(SAMPLES[name])
    assert true <= estimate(SAMPLES[name]) <= 1.7 * true


@pytest.mark.parametrize("name", SAMPLES)
def test_a_prefix_fits_and_is_not_wasteful(name: str) -> None:
    text = SAMPLES[name]
    kept = prefix(text, 200)
    assert 0 < kept < len(text)
    assert fits(text[:kept], 202)
    assert estimate(text[:kept]) >= 150
    assert not fits(text, 200)
    assert fits(text, estimate(text))
