package dev.octet.converter.verify;

import java.util.OptionalLong;

/** The index's sum of bytes. */
final class TotalSize extends CheckpointRule {
    TotalSize() {
        super(
                "total-size",
                Severity.ADVICE,
                Consumer.OF_CHECKPOINTS,
                "metadata.total_size of the index is the number of bytes of all tensors.",
                "write the sum of the tensors' bytes, headers not counted, or leave it out",
                "huggingface/huggingface_hub:src/huggingface_hub/serialization/_base.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        OptionalLong claimed =
                subject.checkpoint().index().map(i -> i.totalSize()).orElse(OptionalLong.empty());
        long bytes = subject.checkpoint().shards().stream()
                .mapToLong(s -> s.header().dataBytes())
                .sum();
        if (claimed.isPresent() && subject.complete() && claimed.getAsLong() != bytes) {
            findings.add(
                    this,
                    "the index counts other bytes than there are",
                    "metadata.total_size",
                    claimed.getAsLong() + " claimed, " + bytes + " there");
        }
    }
}
