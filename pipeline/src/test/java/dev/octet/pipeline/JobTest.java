package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class JobTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-onnx");
    private static final Path BERT = MODELS.resolve("bert_eager_script17.onnx");

    @TempDir
    Path folder;

    @Test
    void an_output_that_exists_is_refused_before_any_work() throws IOException {
        Path output = Files.writeString(folder.resolve("m.onnx"), "mine");
        Quantize.GraphRequest request = Quantize.GraphRequest.of(BERT, output).withRecipe(Recipes.FP8_WEIGHT_ONLY);
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> Quantize.run(request, Job.named("octet quantize")));
        assertEquals("'" + output + "' exists", e.what());
        assertEquals("octet quantize", e.where());
        assertEquals("mine", Files.readString(output));
        Quantize.run(request, Job.defaults().withThreads(1).overwriting());
        assertEquals(Files.size(output), new Outcome(request).bytes());
    }

    /** The same again, in another file. */
    private record Outcome(Quantize.GraphRequest request) {
        long bytes() throws IOException {
            Path again = request.output().resolveSibling("again.onnx");
            Quantize.GraphRequest other =
                    Quantize.GraphRequest.of(request.model(), again).withRecipe(request.recipe());
            return Quantize.run(other, Job.defaults().withThreads(2)).convertedBytes();
        }
    }

    @Test
    void a_dry_job_writes_nothing() throws IOException {
        Path output = folder.resolve("m.onnx");
        Quantize.GraphResult result = Quantize.run(
                Quantize.GraphRequest.of(BERT, output), Job.defaults().dry());
        assertEquals(0, result.convertedBytes());
        assertEquals(Optional.empty(), Optional.of(output).filter(Files::exists));
    }

    @Test
    void a_recipe_with_static_scales_asks_for_samples_or_statistics() {
        Quantize.GraphRequest request = Quantize.GraphRequest.of(BERT, folder.resolve("m.onnx"));
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> Quantize.run(request, Job.defaults()));
        assertEquals("recipe fp8 needs the activations' statistics", e.what());
    }
}
