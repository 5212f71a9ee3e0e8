"""What a model is asked: the prompts by name, as token ids of one user turn, and where the caption stands in them."""

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from readout.errors import ParameterError, TextError

# All but `echo` are the published ones (arXiv 2605.09969, public code).
PROMPTS = {
    "imagine_see": "Imagine what it would look like to see: {text}",
    "math_solve": "Solve the following problem and give the correct answer: {text}",
    "gpqa_solve": r"Solve the following problem and output answer as \boxed{A/B/C/D}. {text}",
    "protein": (
        "Provide a thorough summary of {text}. Include its gene name, protein family, molecular weight, known "
        "structural domains, function in the cell, binding sites, any known interactions or pathways it "
        "participates in."
    ),
    "caption": "{text}",
    "echo": "Repeat the following caption word for word: {text}",
}
_SLOT = "{text}"


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt: its token ids, and the tokens `start` <= i < `stop` that hold the caption's own text.

    A token that holds the caption's first or last letters together with others counts as the caption's.
    """

    ids: tuple[int, ...]
    start: int
    stop: int


def ask(
    tokenizer: PreTrainedTokenizerBase, name: str, text: str, *, thinking: bool = True, prefix: str = ""
) -> Prompt:
    """The prompt `name` about `text`, as one user turn after which the model answers.

    thinking: handed to a chat template that asks for it (`enable_thinking`), and to no other.
    prefix: what the answer starts with, as if the model had written it.

    Raises ParameterError for an unknown name or a chat template that changes the text, and TextError for an
    empty text.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from transformers import PreTrainedTokenizerFast
    >>> words = {w: i for i, w in enumerate(["[UNK]", "User", ":", "Assistant", "a", "cat"])}
    >>> tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> ask(PreTrainedTokenizerFast(tokenizer_object=tokenizer), "caption", "a cat")
    Prompt(ids=(1, 2, 4, 5, 3, 2), start=2, stop=4)
    """
    if name not in PROMPTS:
        raise ParameterError(f"name: {name!r} is not one of {', '.join(PROMPTS)}")
    text = text.strip()
    if not text:
        raise TextError(f"text: {text!r} is empty; leave it out")
    template = PROMPTS[name]
    message = template.replace(_SLOT, text)
    rendered = _render(tokenizer, message, thinking)
    begin = rendered.rfind(message)
    if begin < 0:
        raise ParameterError(f"text: the chat template does not hold {text[:40]!r} as it was given")
    begin += template.index(_SLOT)
    ids, offsets = _encode(tokenizer, rendered + prefix)
    own = [i for i, (a, b) in enumerate(offsets) if a < b and a < begin + len(text) and b > begin]
    return Prompt(tuple(ids), own[0], own[-1] + 1)


def chat_ids(
    tokenizer: PreTrainedTokenizerBase, message: str, *, thinking: bool = True, prefix: str = ""
) -> list[int]:
    r"""The token ids of any message as one user turn after which the model answers; see `ask` for the rest.

    Without a chat template the turn reads "User: <message>\nAssistant:".
    """
    return _encode(tokenizer, _render(tokenizer, message, thinking) + prefix)[0]


def _render(tokenizer: PreTrainedTokenizerBase, message: str, thinking: bool) -> str:
    template = tokenizer.chat_template
    if template is None:
        return f"User: {message}\nAssistant:"
    options = {"enable_thinking": thinking} if "enable_thinking" in str(template) else {}
    turn = [{"role": "user", "content": message}]
    return tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True, **options)


def _encode(tokenizer: PreTrainedTokenizerBase, rendered: str) -> tuple[list[int], list[tuple[int, int]]]:
    # A chat template writes its own special tokens.
    special = tokenizer.chat_template is None
    encoding = tokenizer(rendered, add_special_tokens=special, return_offsets_mapping=True, verbose=False)
    return encoding["input_ids"], encoding["offset_mapping"]
