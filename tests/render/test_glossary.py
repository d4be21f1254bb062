from support import outline, pages

from softbench.render.report.glossary import explained, words
from softbench.render.report.html import Markup, typeset


def test_the_first_use_of_a_term_is_a_link():
    text = Markup('<h1>roof</h1><p title="a roof">few-roof <code>roof</code> Roofs and a roof &lt;round&gt;</p>')
    found, meanings = explained(text)
    assert str(found).startswith('<h1>roof</h1><p title="a roof">few-roof <code>roof</code> <a href="#word-roof" title=')
    assert found.count("<a ") == 2
    assert ">Roofs</a> and a roof &lt;<a " in found
    page = outline.outline(f"<body>{meanings}</body>")
    assert [term.text for term in page.all("dt")] == ["roof", "round"]
    assert page.all("dd")[0].text == words()["roof"]
    assert explained(Markup("<p>nothing</p>")) == ("<p>nothing</p>", "")


def test_every_term_of_a_page_leads_to_its_meaning():
    page = pages.read()
    links = [link.attributes["href"] for link in page.all("a") if link.attributes.get("class") == "term"]
    assert sorted(links) == sorted(f"#{term.attributes['id']}" for term in page.all("dt"))
    assert {"#word-roof", "#word-placement", "#word-warm-L2"} <= set(links)


def test_signs_are_those_of_print_and_ids_stay():
    assert typeset("2.62x a, -0.04 %, [-1, 2] 1x") == "2.62× a, −0.04 %, [−1, 2] 1×"
    assert typeset("softmax-float16-4096x1024 20261125-154133") == "softmax-float16-4096x1024 20261125-154133"
