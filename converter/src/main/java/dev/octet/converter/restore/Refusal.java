package dev.octet.converter.restore;

import dev.octet.converter.hf.HfImporter;
import dev.octet.formats.error.UnsupportedModelException;

/** The refusal of a graph of unknown architecture. */
final class Refusal {
    private Refusal() {}

    static UnsupportedModelException of(String reason, String where) {
        return new UnsupportedModelException(
                "the graph matches no known architecture: " + reason,
                where,
                "known are models of type " + String.join(", ", HfImporter.modelTypes())
                        + "; where the model is one of these, give its config.json with --config");
    }
}
