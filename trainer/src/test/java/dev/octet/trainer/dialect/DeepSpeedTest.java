package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.octet.trainer.dialect.Reading.Row;
import dev.octet.trainer.yaml.HjsonFile;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(ReplaceUnderscores.class)
class DeepSpeedTest {
    static Reading read(String json) {
        return Dialect.DEEPSPEED.read(HjsonFile.parse(json, "ds.json"), Given.NOTHING);
    }

    static Row row(Reading reading, String key) {
        return reading.rows().stream()
                .filter(r -> r.key().equals(key))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void adam_of_deepspeed_is_adamw_without_decay() {
        Reading reading = read("""
                {
                  # two of the three
                  "train_batch_size": 32, "train_micro_batch_size_per_gpu": 8,
                  "optimizer": {"type": "Adam", "params": {"lr": 2e-5, "betas": [0.9, 0.95], "bias_correction": true}},
                  "fp16": {"enabled": true, "hysteresis": 3},
                  "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": "auto"},
                  "compression_training": {"sparse_pruning": {"shared_parameters": {"enabled": true}, "different_groups": {"a.b": {"params": {"dense_ratio": 0.5}}}}},
                  "train_batch_sise": 4, "bf16": {"enable": true}, "steps_per_print": "x"
                }""");
        assertFalse(reading.settings().isEmpty());
    }
}
