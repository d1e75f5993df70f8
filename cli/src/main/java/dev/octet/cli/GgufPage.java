package dev.octet.cli;

import dev.octet.converter.inspect.GgufFacts;
import dev.octet.converter.inspect.TensorFact;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What {@code inspect} prints of a GGUF file, for people. */
final class GgufPage {
    private GgufPage() {}

    /**
     * A file.
     *
     * @param all whether to list every tensor
     */
    static String of(GgufFacts facts, boolean all) {
        Table head = new Table()
                .row("file", facts.path())
                .row("format", "GGUF, version " + facts.version())
                .row("size", Quantity.bytes(facts.fileBytes()))
                .row("parameters", ModelPage.count(facts.tensors().parameters()))
                .row("architecture", facts.architecture() == null ? "not named" : facts.architecture());
        if (facts.name() != null) {
            head.row("name", facts.name());
        }
        if (facts.fileType() != null) {
            head.row("file type", facts.fileType());
        }
        if (facts.dimensions() != null) {
            head.row("dimensions", ModelPage.text(facts.dimensions()));
        }
        if (facts.rotary() != null) {
            head.row("rotary", rotary(facts.rotary()));
        }
        head.row("tokenizer", facts.tokenizer() == null ? "none" : tokenizer(facts.tokenizer()));
        head.row(
                "as a folder",
                facts.notConverted() == null
                        ? "octet convert FILE -o DIR --target huggingface"
                        : "not possible: " + facts.notConverted());
        StringBuilder page = new StringBuilder(head.text(0));
        ModelPage.appendTypes(page, facts.tensors());
        Map<String, String> keys = new LinkedHashMap<>(facts.metadata());
        keys.remove("general.architecture"); // shown above
        keys.remove("general.name");
        ModelPage.appendSettings(page, "keys", keys);
        if (all) {
            Table table = new Table().heading("tensor", "type", "shape", "bytes");
            for (TensorFact t : facts.list()) {
                table.row(t.name(), t.dtype(), t.shape(), Quantity.bytes(t.bytes()));
            }
            page.append("\nall tensors\n").append(table.text(2));
        }
        return page.toString();
    }

    private static String rotary(GgufFacts.Rotary r) {
        List<String> parts = new ArrayList<>();
        if (r.dimensions() != null) {
            parts.add(r.dimensions() + " elements of a head");
        }
        if (r.base() != null) {
            parts.add("theta " + number(r.base()));
        }
        if (r.scaling() != null) {
            parts.add("scaling " + r.scaling());
        }
        if (r.factor() != null) {
            parts.add("factor " + number(r.factor()));
        }
        if (r.originalContext() != null) {
            parts.add("original context " + r.originalContext());
        }
        if (r.factors() != null) {
            parts.add(r.factors() + " factors of frequencies");
        }
        return String.join(", ", parts);
    }

    private static String tokenizer(GgufFacts.Tokenizer t) {
        List<String> parts = new ArrayList<>();
        parts.add(t.model() == null ? "model not named" : t.model());
        if (t.pre() != null) {
            parts.add("pre " + t.pre());
        }
        if (t.tokens() != null) {
            parts.add(t.tokens() + " tokens");
        }
        if (t.merges() != null) {
            parts.add(t.merges() + " merges");
        }
        if (t.bos() != null) {
            parts.add("bos " + t.bos());
        }
        if (t.eos() != null) {
            parts.add("eos " + t.eos());
        }
        parts.add(t.chatTemplate() ? "chat template" : "no chat template");
        return String.join(", ", parts);
    }

    private static String number(double x) {
        return x == Math.rint(x) && Math.abs(x) < 1e15 ? String.valueOf((long) x) : String.valueOf(x);
    }
}
