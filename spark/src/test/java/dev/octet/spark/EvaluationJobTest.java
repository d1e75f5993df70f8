package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.Evaluate;
import dev.octet.pipeline.Gates;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.SampleSource;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Models compared in slices of the samples. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class EvaluationJobTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    /** Batches of other sizes: kernels of the runtime add up in other orders. */
    private static final double BATCHES = 1e-6;

    @TempDir
    private static Path shared;

    private static JavaSparkContext spark;

    @BeforeAll
    static void start() {
        spark = SparkContexts.local();
    }

    @AfterAll
    static void stop() {
        spark.stop();
    }

    /** A model with its tokenizer, quantised, and texts. */
    private record Case(Path model, Path quantized, Path texts) {
        static Case of(String name) throws IOException {
            Path model = Files.createDirectories(shared.resolve(name));
            for (String file : List.of("config.json", "model.safetensors")) {
                if (Files.notExists(model.resolve(file))) {
                    Files.copy(TESTDATA.resolve("models/tiny-hf").resolve(name).resolve(file), model.resolve(file));
                }
            }
            Files.write(model.resolve("tokenizer.json"), Files.readAllBytes(TESTDATA.resolve("tokenizer/words.json")));
            Path quantized = shared.resolve(name + "-fp8");
            if (Files.notExists(quantized)) {
                Quantize.run(Quantize.CheckpointRequest.of(model, quantized, Recipes.FP8_DYNAMIC), Job.defaults());
            }
            Path texts = Files.writeString(
                    shared.resolve("texts.jsonl"),
                    "{\"text\": \"the cat sat on the mat\"}\n{\"text\": \"a dog\"}\n{\"text\": \"a dog ran far\"}\n"
                            .repeat(30));
            return new Case(model, quantized, texts);
        }

        Evaluate.Result alone(Gates gates) throws IOException {
            return Evaluate.run(
                    Evaluate.Request.of(model, quantized, SampleSource.of(texts))
                            .withGates(gates),
                    Job.defaults().withThreads(1));
        }

        EvaluationJob job() {
            return new EvaluationJob(spark, model.toString(), quantized.toString(), texts.toString());
        }
    }

    @Test
    void outputs_embeddings_layers_and_gates_are_those_of_one_process_to_the_bit() throws IOException {
        Case bert = Case.of("bert-bare");
        Gates gates = new Gates(Map.of("cosine", 0.5, "embedding-cosine", 1.0));
        Evaluate.Result alone = bert.alone(gates);
        Evaluate.Result together = bert.job().withSlice(64).withGates(gates).run();
        assertNotNull(alone.comparison().embedding());
        assertFalse(alone.layers().isEmpty());
        assertEquals(alone.comparison(), together.comparison());
        assertEquals(alone.layers(), together.layers());
        assertEquals(alone.gates(), together.gates());
        assertEquals(alone.notes(), together.notes());
    }

    @Test
    void perplexities_are_those_of_one_process_but_for_the_rounding_of_batches() throws IOException {
        Case llama = Case.of("llama");
        var expected =
                Objects.requireNonNull(llama.alone(Gates.NONE).comparison().perplexity());
        var found = Objects.requireNonNull(
                llama.job().withSlice(20).withParts(Set.of()).run().comparison().perplexity());
        assertEquals(expected.reference().tokens(), found.reference().tokens());
        assertEquals(expected.reference().loss(), found.reference().loss(), BATCHES);
        assertEquals(expected.candidate().loss(), found.candidate().loss(), BATCHES);
    }

    @Test
    void models_and_data_in_a_file_system_of_hadoop_are_brought_to_executors() throws IOException {
        Case bert = Case.of("bert-bare");
        spark.hadoopConfiguration().set("fs.distant.impl", DistantFileSystem.class.getName());
        Evaluate.Result result = new EvaluationJob(
                        spark, "distant:" + bert.model(), "distant:" + bert.quantized(), "distant:" + bert.texts())
                .run();
        assertEquals(bert.alone(Gates.NONE).comparison(), result.comparison());
    }

    @Test
    void a_sample_that_does_not_fit_is_told_as_by_one_process() throws IOException {
        Case bert = Case.of("bert-bare");
        Path bad = Files.writeString(shared.resolve("bad.jsonl"), "{\"text\": \"dog\"}\n{\"txt\": \"cat\"}\n");
        OctetException expected = assertThrows(
                InvalidDataException.class,
                () -> Evaluate.run(
                        Evaluate.Request.of(bert.model(), bert.quantized(), SampleSource.of(bad)), Job.defaults()));
        EvaluationJob job = new EvaluationJob(
                spark, bert.model().toString(), bert.quantized().toString(), bad.toString());
        assertEquals(
                expected.what(),
                assertThrows(InvalidDataException.class, job::run).what());
    }
}
