package dev.octet.trainer.config;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.yaml.YamlFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/** Arbitrary text as a configuration: either one whose settings can be told, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class TrainingConfigFuzzTest {
    @FuzzTest(maxDuration = "30m")
    void arbitrary_text_is_a_configuration_or_refused(byte[] bytes) {
        try {
            TrainingConfig config = TrainingConfig.of(
                    YamlFile.parse(new String(bytes, StandardCharsets.UTF_8), "fuzz"), Path.of("fuzz"));
            Assertions.assertFalse(Settings.of(config).isEmpty());
            Assertions.assertFalse(config.precision().policy().name().isEmpty());
        } catch (InvalidOptionException e) {
            Assertions.assertFalse(e.fix().isEmpty());
        }
    }
}
