package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FinalNamesTest {
    @ParameterizedTest
    @CsvSource(
            quoteCharacter = '"',
            value = {
                "runs/.octet-export-e.fp8/masters, runs/e.fp8",
                "/a/.octet-export-my model/masters/config.json, /a/my model/config.json",
                "/a/.octet-export-e/made/e/model.safetensors, /a/e/model.safetensors",
                "/a/.octet-export-e, /a/e",
                "no space in '.octet-export-e/made/e' left, no space in 'e' left",
                "/a/.out.onnx.12-3.tmp, /a/out.onnx",
                "/a/.model.stats.part: no space, /a/model.stats: no space",
                "/a/e/.octet-new/config.json, /a/e/config.json",
                "/a/plain.part, /a/plain.part",
                "weight 'model.tmp.part', weight 'model.tmp.part'"
            })
    void an_unfinished_file_is_called_what_it_will_be(String text, String shown) {
        assertEquals(shown, FinalNames.in(text));
    }

    @Test
    void a_graph_in_a_temporary_folder_is_called_by_what_it_is() {
        assertEquals(
                "the graph as Octet runs it, samples 0 to 3",
                FinalNames.ofBuilt("/tmp/octet-graph-21595-4619845955157743280/graph.onnx, samples 0 to 3"));
        assertEquals("/tmp/octet-graphs/graph.onnx", FinalNames.ofBuilt("/tmp/octet-graphs/graph.onnx"));
    }
}
