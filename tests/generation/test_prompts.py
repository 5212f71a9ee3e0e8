import pytest

from readout import paths
from readout.errors import ParameterError, TextError
from readout.generation.prompts import PROMPTS, ask, chat_ids
from readout.sources.models import load_causal

from ..states.tiny_models import word_tokenizer

CHATML = (
    "{% for m in messages %}w10 {{ m['role'] }} {{ m['content'] }} w11 {% endfor %}"
    "{% if add_generation_prompt %}w12{% endif %}"
)
THINKING = CHATML + "{% if enable_thinking is defined and not enable_thinking %} w13{% endif %}"


def with_template(template):
    tokenizer = word_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def test_a_template_gets_one_user_turn_and_the_start_of_an_answer():
    assert chat_ids(with_template(CHATML), "w3 w4") == [10, 0, 3, 4, 11, 12]


def test_without_a_template_the_turn_is_written_out_with_the_tokenizers_special_tokens():
    assert chat_ids(word_tokenizer(special=True), "w3")[::5] == [1, 0]
    assert chat_ids(word_tokenizer(), "w3") == [0, 0, 3, 0, 0]


def test_thinking_reaches_the_template_that_asks_for_it_and_no_other():
    assert chat_ids(with_template(THINKING), "w3", thinking=False)[-1] == 13
    assert chat_ids(with_template(THINKING), "w3", thinking=True)[-1] == 12
    assert chat_ids(with_template(CHATML), "w3", thinking=False) == chat_ids(with_template(CHATML), "w3")


def test_a_prefix_starts_the_answer():
    assert chat_ids(with_template(CHATML), "w3", prefix=" w5 w6")[-3:] == [12, 5, 6]
    assert ask(with_template(CHATML), "caption", "w3", prefix=" w3").ids[-1] == 3


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("template", [None, CHATML])
def test_the_captions_tokens_are_found_in_every_prompt(name, template):
    prompt = ask(with_template(template), name, "w20 w21 w22", prefix=" w20 w21 w22")
    assert prompt.ids[prompt.start : prompt.stop] == (20, 21, 22)
    assert prompt.stop < len(prompt.ids) - 3


def test_wrong_names_and_empty_texts_are_refused():
    with pytest.raises(ParameterError, match="name: 'imagine' is not one of imagine_see, math_solve"):
        ask(word_tokenizer(), "imagine", "w3")
    with pytest.raises(TextError, match="is empty"):
        ask(word_tokenizer(), "caption", " ")
    with pytest.raises(ParameterError, match="does not hold 'w3' as it was given"):
        ask(with_template("{{ messages[0]['content'] | upper }}"), "caption", "w3")


@pytest.mark.assets
def test_the_real_tokenizer_gives_what_its_template_gives_and_the_captions_letters():
    paths.root.cache_clear()
    tokenizer = load_causal("smollm2-135m-instruct").tokenizer
    text = "the Poolbeg generating station, after being closed down"
    turn = [{"role": "user", "content": f"Imagine what it would look like to see: {text}"}]
    expected = tokenizer.apply_chat_template(turn, add_generation_prompt=True)["input_ids"]
    prompt = ask(tokenizer, "imagine_see", text)
    assert list(prompt.ids) == expected == chat_ids(tokenizer, turn[0]["content"])
    assert tokenizer.decode(prompt.ids[prompt.start : prompt.stop]).strip() == text
