package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.device.cuda.AlgorithmChoices.Choice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Measured algorithms on disk. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AlgorithmChoicesTest {
    private static final String ALGORITHM = "ab".repeat(CublasLt.ALGORITHM_BYTES);

    @TempDir
    Path folder;

    private AlgorithmChoices choices() {
        return new AlgorithmChoices(folder, "NVIDIA H200", "13.1.0");
    }

    private Path file() {
        return folder.resolve("cublaslt-13.1.0-nvidia-h200.json");
    }

    @Test
    void a_choice_is_found_by_the_next_process() {
        choices().put("bf16", new Choice(ALGORITHM, 12.5, 8, 1980));
        Choice kept = choices().get("bf16").orElseThrow();
        assertEquals(ALGORITHM, kept.algorithm());
        assertEquals(12.5, kept.microseconds());
        assertEquals(8, kept.candidates());
        assertEquals(1980, kept.clock());
        assertTrue(choices().get("f16").isEmpty());
    }

    @Test
    void another_gpu_or_library_has_choices_of_its_own() {
        choices().put("bf16", new Choice(ALGORITHM, 12.5, 8, 1980));
        assertTrue(new AlgorithmChoices(folder, "NVIDIA H100", "13.1.0")
                .get("bf16")
                .isEmpty());
        assertTrue(new AlgorithmChoices(folder, "NVIDIA H200", "13.1.1")
                .get("bf16")
                .isEmpty());
    }

    @Test
    void two_processes_do_not_lose_each_others_choices() {
        AlgorithmChoices one = choices();
        AlgorithmChoices other = choices();
        one.put("first", new Choice(ALGORITHM, 1, 2, 0));
        other.put("second", new Choice(ALGORITHM, 1, 2, 0));
        assertTrue(choices().get("first").isPresent());
        assertTrue(choices().get("second").isPresent());
    }

    @Test
    void hostile_files_count_as_none_and_are_written_anew() throws IOException {
        choices().put("bf16", new Choice(ALGORITHM, 12.5, 8, 1980));
        String whole = Files.readString(file());
        List<String> hostile = List.of(
                "",
                "[]",
                "null",
                "17",
                whole.substring(0, whole.length() / 2),
                whole.replace("NVIDIA H200", "another"),
                whole.replace("abab", "xyxy"),
                whole.replace("abab", ""),
                whole.replace("clock", "time"),
                "{\"gpu\":\"NVIDIA H200\",\"cublasLt\":\"13.1.0\",\"choices\":[1,2]}",
                "{\"gpu\":\"NVIDIA H200\",\"cublasLt\":\"13.1.0\",\"choices\":{\"bf16\":3}}");
        for (String text : hostile) {
            Files.writeString(file(), text);
            assertEquals(Optional.empty(), choices().get("bf16"), text);
            choices().put("bf16", new Choice(ALGORITHM, 12.5, 8, 1980));
            assertEquals(whole, Files.readString(file()), text);
        }
    }
}
