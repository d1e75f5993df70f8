package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The program of docs/int8.md runs with langchain4j and the ONNX Runtime that it brings, on what each recipe writes. */
@Tag("clients")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LangChain4jTest {
    private static final Path ROOT =
            Path.of(System.getProperty("octet.root")).toAbsolutePath().normalize();
    private static final Pattern PROGRAM = Pattern.compile("```java\\R(.*?)```", Pattern.DOTALL);
    private static final Pattern LINE = Pattern.compile("(?m)^(model\\S*\\.onnx) (\\S+)$");
    private static final String COPY_OF_CLASS_PATH =
            "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath";
    private static final double MOST_APART = 0.01;

    @TempDir
    static Path shared;

    private static String classPath = "";

    @TempDir
    Path folder;

    private record Answer(int code, String text) {}

    @BeforeAll
    static void langchain4j_is_there() throws IOException, InterruptedException {
        Path file = shared.resolve("classpath.txt");
        String pom = ROOT.resolve("bench/clients/langchain4j/pom.xml").toString();
        Answer answer;
        try {
            answer =
                    run(shared, List.of("mvn", "-q", "-B", "-f", pom, COPY_OF_CLASS_PATH, "-Dmdep.outputFile=" + file));
        } catch (IOException e) {
            answer = new Answer(1, e.toString());
        }
        boolean there = answer.code() == 0;
        if (!there) {
            System.out.println("skipped: Maven cannot fetch langchain4j: " + answer.text());
        }
        assumeTrue(there, "Maven cannot fetch langchain4j");
        classPath = Files.readString(file).strip();
    }

    private static Answer run(Path directory, List<String> command) throws IOException, InterruptedException {
        Path out = Files.createTempFile(shared, "run", ".txt");
        Process process = new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .redirectOutput(out.toFile())
                .start();
        return new Answer(process.waitFor(), Files.readString(out));
    }

    @ParameterizedTest
    @ValueSource(strings = {"int8-dynamic", "int8-weight-only"})
    void the_program_of_the_page_answers_with_the_quantised_model_as_with_the_original(String recipe)
            throws IOException, InterruptedException {
        Files.copy(TinyBert.MODEL, folder.resolve("model.onnx"));
        Files.writeString(folder.resolve("tokenizer.json"), tokenizer());
        String output = folder.resolve("model.int8.onnx").toString();
        CommandLine quantize = CommandLine.run("quantize", TinyBert.MODEL.toString(), "-o", output, "--recipe", recipe);
        assertEquals(ExitCode.OK, quantize.code(), quantize.err());
        MatchResult program = PROGRAM.matcher(Files.readString(ROOT.resolve("docs/int8.md")))
                .results()
                .findFirst()
                .orElseThrow();
        Path source = Files.writeString(folder.resolve("Similarity.java"), program.group(1));
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Answer answer = run(
                folder,
                List.of(
                        java,
                        "--enable-native-access=ALL-UNNAMED",
                        "--sun-misc-unsafe-memory-access=allow",
                        "--class-path",
                        classPath + File.pathSeparator + folder,
                        source.toString()));
        assertEquals(0, answer.code(), answer.text());
        Map<String, Double> similarity = new TreeMap<>();
        LINE.matcher(answer.text()).results().forEach(l -> similarity.put(l.group(1), Double.parseDouble(l.group(2))));
        assertEquals(List.of("model.int8.onnx", "model.onnx"), List.copyOf(similarity.keySet()), answer.text());
        double before = Objects.requireNonNull(similarity.get("model.onnx"));
        double after = Objects.requireNonNull(similarity.get("model.int8.onnx"));
        assertEquals(before, after, MOST_APART);
    }

    /** A WordPiece tokenizer of single letters, small enough for the model's vocabulary. */
    private static String tokenizer() {
        List<String> words = new ArrayList<>(List.of("[PAD]", "[UNK]", "[CLS]", "[SEP]", "?", "."));
        for (char letter = 'a'; letter <= 'z'; letter++) {
            words.add(String.valueOf(letter));
            words.add("##" + letter);
        }
        StringBuilder vocabulary = new StringBuilder();
        for (String word : words) {
            vocabulary
                    .append(vocabulary.isEmpty() ? "" : ",")
                    .append('"')
                    .append(word)
                    .append("\":")
                    .append(words.indexOf(word));
        }
        return """
            {"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
             "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
             "pre_tokenizer": {"type": "BertPreTokenizer"},
             "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
             "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
             "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {%s}}}
            """.formatted(vocabulary);
    }
}
