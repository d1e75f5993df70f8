package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Shard;
import java.util.EnumSet;

/** The header's word on which library wrote it. */
final class FormatMetadata extends CheckpointRule {
    FormatMetadata() {
        super(
                "format-metadata",
                Severity.WARNING,
                EnumSet.of(Consumer.TRANSFORMERS),
                "__metadata__ of every file has \"format\": \"pt\": older transformers refuse a file without it.",
                "add \"format\": \"pt\" to the metadata of the header",
                "huggingface/transformers:src/transformers/modeling_utils.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        for (Shard shard : subject.checkpoint().shards()) {
            String format = shard.header().metadata().get("format");
            if (format == null) {
                findings.add(this, "a file does not say its format", shard.name(), "");
            }
        }
    }
}
