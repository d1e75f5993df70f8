package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files that another program shortens while Octet reads them: as soon as Octet says the first thing. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ShortenedInputTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root", ".."));
    private static final Path MODELS = ROOT.resolve("testdata/models");

    @TempDir
    Path folder;

    /** What a run prints to standard error; shortens {@code file} once a line with {@code sign} comes. */
    private static final class Cutter extends PrintStream {
        private final ByteArrayOutputStream printed;
        private final Path file;
        private final long bytes;
        private final String sign;

        private Cutter(ByteArrayOutputStream printed, Path file, long bytes, String sign) {
            super(printed, true, StandardCharsets.UTF_8);
            this.printed = printed;
            this.file = file;
            this.bytes = bytes;
            this.sign = sign;
        }

        static Cutter of(Path file, long bytes, String sign) {
            return new Cutter(new ByteArrayOutputStream(), file, bytes, sign);
        }

        @Override
        public void println(String line) {
            super.println(line);
            cut(line);
        }

        @Override
        public void print(String text) {
            super.print(text);
            cut(text);
        }

        private void cut(String text) {
            if (text.contains(sign)) {
                try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
                    open.setLength(Math.min(bytes, open.length()));
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        }

        String text() {
            return printed.toString(StandardCharsets.UTF_8);
        }
    }

    private static void endsNamingIt(Cutter err, List<String> words) {
        Screen screen = new Screen(new PrintStream(OutputStream.nullOutputStream()), err, false, 0);
        ExitCode code = Octet.run(words, screen);
        assertEquals(ExitCode.IO, code, err.text());
        assertTrue(err.text().contains("octet: the file became shorter while it was read: it had "), err.text());
        assertTrue(err.text().contains("where: " + err.file), err.text());
    }

    @Test
    void training_data() throws IOException {
        Path data = Files.write(folder.resolve("tokens.bin"), new byte[400_000]);
        Path config = Files.writeString(folder.resolve("c.yaml"), """
            data: {train: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: 2
            steps: 20
            optimizer: {type: adamw, lr: 1.0e-3}
            """);
        endsNamingIt(
                Cutter.of(data, 0, "step 1/"),
                List.of(
                        "train",
                        MODELS.resolve("tiny-onnx/gpt2_eager_dynamo18.onnx").toString(),
                        "--config",
                        config.toString(),
                        "-o",
                        folder.resolve("run").toString(),
                        "--progress",
                        "plain"));
    }

    /** Its last page is cut in two: what is gone reads as zeros, and nothing fails. */
    @Test
    void training_data_whose_last_bytes_read_as_zeros() throws IOException {
        Path data = Files.write(folder.resolve("tokens.bin"), new byte[2000]);
        Path config = Files.writeString(folder.resolve("c.yaml"), """
            data: {train: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: 2
            steps: 3
            optimizer: {type: adamw, lr: 1.0e-3}
            """);
        endsNamingIt(
                Cutter.of(data, 100, "step 1/"),
                List.of(
                        "train",
                        MODELS.resolve("tiny-onnx/gpt2_eager_dynamo18.onnx").toString(),
                        "--config",
                        config.toString(),
                        "-o",
                        folder.resolve("run").toString(),
                        "--progress",
                        "plain"));
    }

    /** Weights that ONNX Runtime would read where they are mapped: without a look at the file first, the process would die. */
    @Test
    void weights_that_native_code_reads() throws IOException {
        Path model = Files.createDirectory(folder.resolve("model"));
        try (Stream<Path> files = Files.list(MODELS.resolve("tiny-hf/llama"))) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                Files.copy(file, model.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
            }
        }
        Path data = folder.resolve("data.npz");
        try (NpzWriter writer = NpzWriter.stored(data);
                Arena arena = Arena.ofConfined()) {
            for (String input : List.of("input_ids", "attention_mask")) {
                writer.add(Tensor.allocate(arena, new TensorSpec(input, DType.I64, Shape.of(600, 8))));
            }
            writer.commit();
        }
        endsNamingIt(
                Cutter.of(model.resolve("model.safetensors"), 5000, "1"),
                List.of(
                        "calibrate",
                        model.toString(),
                        "-o",
                        folder.resolve("out.stats").toString(),
                        "--data",
                        data.toString(),
                        "--progress",
                        "json"));
    }
}
