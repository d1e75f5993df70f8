package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Verifications whose weights are read by tasks. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class VerifyJobTest {
    private static final VerifyOptions DEEP = VerifyOptions.defaults().withDeep(true);

    @TempDir
    private static Path shared;

    private static JavaSparkContext spark;
    private static Path model;

    @BeforeAll
    static void start() throws IOException {
        model = ShardedModel.make(shared.resolve("model"));
        spark = SparkContexts.local();
    }

    @AfterAll
    static void stop() {
        spark.stop();
    }

    private static Path quantized(String name) throws IOException {
        Path folder = shared.resolve(name);
        Quantize.run(Quantize.CheckpointRequest.of(model, folder, Recipes.FP8_BLOCK), Job.defaults());
        return folder;
    }

    /** Overwrites the first bytes of the data of a tensor. */
    private static void damage(Path folder, Predicate<StoredTensor> which, byte... bytes) throws IOException {
        Path file;
        long at;
        try (Checkpoint checkpoint = Checkpoint.open(folder)) {
            StoredTensor tensor = checkpoint.tensors().values().stream()
                    .filter(which)
                    .findFirst()
                    .orElseThrow();
            file = tensor.shard().path();
            at = tensor.position();
        }
        try (RandomAccessFile raw = new RandomAccessFile(file.toFile(), "rw")) {
            raw.seek(at);
            raw.write(bytes);
        }
    }

    @Test
    void a_sound_model_passes_with_the_rules_and_notes_of_one_process() throws IOException {
        Path fp8 = quantized("sound");
        Verification together = new VerifyJob(spark, fp8.toString())
                .withOriginal(model.toString())
                .run();
        assertEquals(Verifier.verify(fp8, DEEP.withOriginal(model)), together);
        assertTrue(together.passed());
        assertTrue(together.rulesRun().contains("value-not-finite"));
    }

    @Test
    void faults_of_codes_plain_values_and_scales_are_found_as_by_one_process() throws IOException {
        Path fp8 = quantized("faulty");
        byte nan = 0x7F;
        damage(fp8, t -> t.dtype() == DType.F8_E4M3FN, nan, nan, (byte) 0x7E, (byte) 0x7E);
        damage(fp8, t -> t.name().contains("norm") && t.dtype() == DType.BF16, (byte) 0xC0, (byte) 0x7F);
        damage(fp8, t -> t.name().endsWith("scale_inv"), (byte) 0, (byte) 0, (byte) 0x80, (byte) 0x3F);
        Verification alone = Verifier.verify(fp8, DEEP.withOriginal(model));
        Set<String> rules =
                Set.copyOf(alone.findings().stream().map(f -> f.rule()).toList());
        assertTrue(
                rules.containsAll(Set.of("value-not-finite", "value-differs", "weight-differs", "weight-nan")),
                rules.toString());
        Verification together = new VerifyJob(spark, fp8.toString())
                .withOriginal(model.toString())
                .run();
        assertEquals(alone, together);
        assertFalse(together.passed());
    }

    @Test
    void consumers_devices_and_shallow_reading_are_as_asked() throws IOException {
        Path fp8 = quantized("asked");
        Verification together = new VerifyJob(spark, fp8.toString())
                .withConsumers(Set.of(Consumer.VLLM))
                .withTensorParallel(List.of(2))
                .withDeep(false)
                .run();
        VerifyOptions options =
                VerifyOptions.defaults().withConsumers(Set.of(Consumer.VLLM)).withTensorParallel(List.of(2));
        assertEquals(Verifier.verify(fp8, options), together);
    }

    @Test
    void a_file_system_of_hadoop_is_read() throws IOException {
        Path fp8 = quantized("distant");
        spark.hadoopConfiguration().set("fs.distant.impl", DistantFileSystem.class.getName());
        Verification together = new VerifyJob(spark, "distant:" + fp8)
                .withOriginal("distant:" + model)
                .run();
        Verification alone = Verifier.verify(fp8, DEEP.withOriginal(model));
        assertEquals(alone.findings(), together.findings());
        assertEquals(alone.rulesRun(), together.rulesRun());
    }

    @Test
    void a_model_that_is_not_there_is_named() {
        VerifyJob job = new VerifyJob(spark, shared + "/none");
        NoSuchFileException e = assertThrows(NoSuchFileException.class, job::run);
        assertTrue(String.valueOf(e.getMessage()).contains("none"), e.toString());
    }
}
