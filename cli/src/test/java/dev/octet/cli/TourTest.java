package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.Converter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.file.Sha256;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The code of docs/library.md, compiled and run. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TourTest {
    private static final Path PAGE = Path.of(System.getProperty("octet.root")).resolve("docs/library.md");
    private static final Path SOURCE =
            Path.of(System.getProperty("octet.root")).resolve("cli/src/test/java/dev/octet/cli/TourTest.java");

    @TempDir
    Path folder;

    // tour
    static void toFp8(Path in, Path samples, Path out) throws IOException {
        try (ModelFile file = ModelFile.open(in);
                Converter converter = Converter.of(file.model());
                Dataset data = NpzDataset.open(samples, InputSpec.of(converter.source()))) {
            Plan plan = converter.plan(Recipes.FP8, List.of());
            Statistics statistics = converter.calibrate(plan, data, Sha256.of(in), CalibrationOptions.defaults());
            converter.convert(plan, statistics, ConversionOptions.defaults()).save(out);
        }
    }
    // end

    @Test
    void the_whole_of_quantize_is_one_call_that_measures_its_layers() throws IOException {
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 3);
        try (ModelFile file = ModelFile.open(TinyBert.MODEL);
                Converter converter = Converter.of(file.model());
                Dataset data = NpzDataset.open(samples, InputSpec.of(converter.source()))) {
            Conversion conversion = converter.quantize(
                    Recipes.FP8,
                    List.of(),
                    data,
                    Sha256.of(TinyBert.MODEL),
                    ConversionOptions.defaults(),
                    CalibrationOptions.defaults());
            assertEquals(
                    conversion.plan().converted(LayerKind.LINEAR).size(),
                    conversion.comparison().size());
            assertEquals("gptq", conversion.model().metadata().get("octet.rounding"));
            assertTrue(conversion.comparison().stream().allMatch(l -> l.sqnrDb() > 15));
        }
    }

    @Test
    void a_model_is_opened_calibrated_converted_and_saved() throws IOException {
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 3);
        Path out = folder.resolve("fp8.onnx");
        toFp8(TinyBert.MODEL, samples, out);
        assertTrue(Files.size(out) < Files.size(TinyBert.MODEL));
    }

    @Test
    void the_page_shows_this_code() throws IOException {
        String source = Files.readString(SOURCE);
        String tour = source.substring(source.indexOf("    // tour\n") + "    // tour\n".length());
        String code = tour.substring(0, tour.indexOf("    // end\n")).indent(-4);
        String page = Files.readString(PAGE);
        int from = page.indexOf("```java\n") + "```java\n".length();
        assertEquals(code, page.substring(from, page.indexOf("```\n", from)));
        assertTrue(code.lines().count() <= 15, "the tour is longer than 15 lines");
    }
}
