"""CVAT: tags of images as "CVAT for images 1.1" (XML), and its labels as JSON.

The tag of an image is the suggestion. CVAT does not say whether anybody looked at a tag, so each has a box: a
suggestion counts as judged if its box is ticked, and so does a tag that was put in its place.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from selc.errors import InputError
from selc.review.exchange.tools.base import TOOLS, Answer, Answers, Content, Item, Sheet, Tool, as_list, as_xml

CHECKED, GIVEN, QUALITY = "checked", "given_label", "label_quality"  # attributes of a tag
BY_MACHINE = ("auto", "file")  # sources of tags that nobody made by hand


@TOOLS.register("cvat")
class Cvat(Tool):
    """CVAT: images, with the suggestions as tags to be ticked or replaced."""

    shows = "images"
    ending, setup_ending = ".xml", ".json"
    needs_size = needs_files = True
    steps = (
        "make a task with the images, paste the setup as its labels (Raw), upload the tasks as CVAT 1.1; export that"
    )

    def tasks(self, sheet: Sheet) -> str:
        top = ET.Element("annotations")
        ET.SubElement(top, "version").text = "1.1"
        for place, item in enumerate(sheet.items):
            top.append(_image(place, item))
        return '<?xml version="1.0" encoding="utf-8"?>\n' + as_xml(top)

    def setup(self, sheet: Sheet) -> str:
        ticked = {"name": CHECKED, "input_type": "checkbox", "mutable": False, "values": ["false"]}
        texts = [{"name": name, "input_type": "text", "mutable": False, "values": [""]} for name in (GIVEN, QUALITY)]
        attributes = [ticked, *texts]
        return as_list([{"name": name, "type": "tag", "attributes": attributes} for name in sheet.choices])

    def wrote(self, content: Content) -> bool:
        return isinstance(content, ET.Element) and content.tag == "annotations"

    def answers(self, content: Content, where: str) -> Answers:
        assert isinstance(content, ET.Element)
        images = content.findall("image")
        if not images:
            raise InputError(
                f"{where} must be CVAT's export 'CVAT for images 1.1'; got one without images. Export the task again."
            )
        made = [_answer(image, f"image {place + 1} of {where}") for place, image in enumerate(images)]
        left = sum(bool(image.findall("tag")) and not a.labels for image, a in zip(images, made, strict=True))
        note = f"{left} suggestions are as they were exported, and not ticked as {CHECKED}; they count as not judged"
        return Answers(made, [note] if left else [])


def _image(place: int, item: Item) -> ET.Element:
    width, height = item.size
    image = ET.Element("image", id=str(place), name=item.view, width=str(width), height=str(height))
    tag = ET.SubElement(image, "tag", label=item.suggested, source="auto")
    for name, value in ((CHECKED, "false"), (GIVEN, item.given), (QUALITY, str(item.quality))):
        ET.SubElement(tag, "attribute", name=name).text = value
    return image


def _answer(image: ET.Element, where: str) -> Answer:
    name = image.get("name")
    if not name:
        raise InputError(f"{where} must have a name; got none.")
    labels, given = [], None
    for tag in image.findall("tag"):
        label = tag.get("label")
        if not label:
            raise InputError(f"{where} must have tags with a label; got one without.")
        attributes = {a.get("name"): (a.text or "").strip() for a in tag.findall("attribute")}
        given = attributes.get(GIVEN) or given  # of a tag that somebody made it is empty
        suggestion = tag.get("source") in BY_MACHINE or bool(attributes.get(GIVEN))
        if not suggestion or attributes.get(CHECKED) == "true":
            labels.append(label)
    return Answer(name, tuple(dict.fromkeys(labels)), given=given)
