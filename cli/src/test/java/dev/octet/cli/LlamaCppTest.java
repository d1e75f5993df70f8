package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import de.kherud.llama.InferenceParameters;
import de.kherud.llama.LlamaModel;
import de.kherud.llama.LlamaOutput;
import de.kherud.llama.ModelParameters;
import de.kherud.llama.args.CacheType;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * GGUF files in llama.cpp itself: it loads them, splits texts into the same tokens, and generates what transformers generates
 * (testdata/make/gguf_models.py). In a process of its own, since a native library can end it. Its version is of March 2025, which knows Llama, Mistral,
 * Qwen2, Gemma and Gemma 2, but not Qwen3; of Gemma 2 it takes 26, 42 or 46 layers only, and ends otherwise.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LlamaCppTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "golden/gguf/models");
    private static final int GENERATED = 12;

    @TempDir
    Path folder;

    /** Says in JSON what llama.cpp makes of prompts. */
    static final class Client {
        private Client() {}

        /** FILE, OUT, then prompts. */
        public static void main(String[] words) throws IOException {
            ArrayNode answers = new ObjectMapper().createArrayNode();
            ModelParameters settings = new ModelParameters()
                    .setModel(words[0])
                    .setCtxSize(256)
                    .setThreads(1)
                    .setCacheTypeK(CacheType.F32)
                    .setCacheTypeV(CacheType.F32);
            try (LlamaModel model = new LlamaModel(settings)) {
                for (String prompt : List.of(words).subList(2, words.length)) {
                    ObjectNode answer = answers.addObject();
                    ArrayNode tokens = answer.putArray("tokens");
                    IntStream.of(model.encode(prompt)).forEach(tokens::add);
                    StringBuilder text = new StringBuilder();
                    InferenceParameters how = new InferenceParameters(prompt)
                            .setTemperature(0)
                            .setNPredict(GENERATED)
                            .setIgnoreEos(true)
                            .setCachePrompt(false);
                    for (LlamaOutput piece : model.generate(how)) {
                        text.append(piece);
                    }
                    answer.put("text", text.toString());
                }
            }
            new ObjectMapper().writeValue(new File(words[1]), answers);
            Runtime.getRuntime().halt(0); // threads of the library do not end
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "llama3", "mistral", "qwen2", "gemma", "gemma2"})
    void llama_cpp_reads_the_tokens_and_says_the_text_of_transformers(String model)
            throws IOException, InterruptedException {
        assumeTrue(
                System.getProperty("os.name").equals("Linux")
                        && System.getProperty("os.arch").equals("amd64"),
                "natives of llama.cpp are tried on Linux x86-64 only");
        Path file = folder.resolve("model.gguf");
        // in F32, as transformers computes; llama.cpp rounds the inputs of BF16 products to BF16
        CommandLine run = CommandLine.run(
                "convert",
                MODELS.resolve(model).toString(),
                "-o",
                file.toString(),
                "--target",
                "gguf",
                "--type",
                "f32");
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode expected = new ObjectMapper()
                .readTree(MODELS.resolve(model).resolve("greedy.json").toFile());
        Path out = folder.resolve("answers.json");
        List<String> command = Child.java("-Djava.io.tmpdir=" + folder);
        command.addAll(List.of(Client.class.getName(), file.toString(), out.toString()));
        expected.forEach(sample -> command.add(sample.path("prompt").asText()));
        Path printed = folder.resolve("printed");
        Process child = Child.start(command, printed);
        boolean ended = child.waitFor(1, TimeUnit.MINUTES);
        child.destroyForcibly();
        assertTrue(ended, () -> read(printed));
        assertEquals(0, child.exitValue(), () -> read(printed));
        JsonNode answers = new ObjectMapper().readTree(out.toFile());
        for (int i = 0; i < expected.size(); i++) {
            JsonNode sample = expected.get(i);
            boolean begin = !model.startsWith("qwen") && !model.equals("llama3"); // llama.cpp adds it when it generates
            List<String> tokens =
                    sample.path("tokens").valueStream().map(JsonNode::asText).toList();
            assertEquals(
                    begin ? tokens.subList(1, tokens.size()) : tokens,
                    answers.get(i)
                            .path("tokens")
                            .valueStream()
                            .map(JsonNode::asText)
                            .toList());
            String text = letters(sample.path("text").asText());
            String said = letters(answers.get(i).path("text").asText());
            // behind a byte that begins a letter llama.cpp goes on for one more token
            assertEquals(text, said.substring(0, Math.min(said.length(), text.length())));
            assertTrue(said.length() <= text.length() + 2, said);
        }
    }

    /** Without what stands for bytes that are no letter, of which both programs make their own number, and without a space in front. */
    private static String letters(String text) {
        return text.replace("\uFFFD", "").strip();
    }

    private static String read(Path file) {
        try {
            return Files.readString(file, java.nio.charset.StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            return e.toString();
        }
    }
}
