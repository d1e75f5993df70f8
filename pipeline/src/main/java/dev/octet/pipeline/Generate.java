package dev.octet.pipeline;

import dev.octet.converter.ModelSource;
import dev.octet.converter.data.ChatPrompt;
import dev.octet.converter.data.Tokenizer;
import dev.octet.converter.generate.EndTokens;
import dev.octet.converter.generate.GeneratedTokens;
import dev.octet.converter.generate.Sampling;
import dev.octet.converter.generate.TextGenerator;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;

/**
 * {@code octet generate}: a text continued by a Hugging Face model, plain or quantised, token by token.
 *
 * <pre>{@code
 * Generate.run(Generate.Request.of(folder, "Once upon a time"), Job.defaults(), System.out::print);
 * }</pre>
 */
public final class Generate {
    /** What a text is continued by where nothing else is asked for. */
    public static final int DEFAULT_TOKENS = 128;

    private static final String TOKENIZER = "tokenizer.json";
    /** Ends a text in whose last bytes a character is not complete. */
    private static final String INCOMPLETE = "\ufffd";

    private Generate() {}

    /** What is continued. */
    public sealed interface Prompt {
        /** A text; the tokenizer's template adds its special tokens. */
        record Text(String text) implements Prompt {}

        /** A user's message in the model's chat template. */
        record Chat(ChatPrompt message) implements Prompt {}

        /** Tokens as they are; the model needs no tokenizer. */
        record Tokens(List<Long> ids) implements Prompt {
            public Tokens {
                ids = List.copyOf(ids);
            }
        }
    }

    /**
     * What to do.
     *
     * @param model folder of a model that predicts the next token, its safetensors file or index
     * @param most tokens that follow; fewer where one ends the text
     * @param sampling how each is chosen
     * @param seed of the draws
     * @param tokenizer {@code tokenizer.json}; empty for the one in the model's folder
     */
    public record Request(Path model, Prompt prompt, int most, Sampling sampling, long seed, Optional<Path> tokenizer) {
        /** Up to {@value Generate#DEFAULT_TOKENS} tokens, always the most probable ones. */
        public static Request of(Path model, String prompt) {
            return new Request(model, new Prompt.Text(prompt), DEFAULT_TOKENS, Sampling.GREEDY, 0, Optional.empty());
        }

        /** The same for another number of tokens. */
        public Request withMost(int tokens) {
            return new Request(model, prompt, tokens, sampling, seed, tokenizer);
        }

        /** The same with tokens drawn. */
        public Request withSampling(Sampling how, long from) {
            return new Request(model, prompt, most, how, from, tokenizer);
        }

        /** The same with a tokenizer that lies elsewhere. */
        public Request withTokenizer(Path file) {
            return new Request(model, prompt, most, sampling, seed, Optional.of(file));
        }
    }

    /**
     * What was made.
     *
     * @param prompt tokens of the prompt
     * @param tokens that follow, with the one that ends the text
     * @param text of the tokens that follow, without special ones; empty where there is no tokenizer
     * @param end why no more follow
     * @param layout of the quantised weights, {@code plain} when none is
     * @param notes what a consumer would quantise and this computation does not
     * @param loadSeconds until the model was loaded
     * @param promptSeconds from there until the first token
     * @param tokenSeconds from there until the last
     */
    public record Result(
            String model,
            List<Long> prompt,
            List<Long> tokens,
            Optional<String> text,
            GeneratedTokens.End end,
            String layout,
            List<String> notes,
            double loadSeconds,
            double promptSeconds,
            double tokenSeconds) {}

    /**
     * Continues a prompt.
     *
     * @param heard hears the text piece by piece as it is made; not called where there is no tokenizer
     * @throws dev.octet.formats.error.OctetException when the model does not predict the next token, cannot be run, or the prompt does not fit it
     * @throws IOException when reading fails
     */
    public static Result run(Request request, Job job, Consumer<String> heard) throws IOException {
        Stopwatch watch = new Stopwatch();
        try (ModelSource source = ModelSource.openForGeneration(request.model())) {
            ModelSource.HuggingFace model = source.huggingFace().orElseThrow();
            Optional<Path> file = tokenizer(request, model.folder());
            try (Texts texts = Texts.open(file, heard);
                    TextGenerator generator = source.generator(job.threads())) {
                List<Long> prompt = texts.tokens(request, job);
                Set<Long> ends = EndTokens.of(model.folder(), model.config());
                double loaded = watch.seconds();
                List<Double> first = new ArrayList<>();
                GeneratedTokens made = generator.generate(
                        prompt,
                        new TextGenerator.Settings(request.most(), request.sampling(), ends),
                        new SplittableRandom(request.seed()),
                        token -> {
                            if (first.isEmpty()) {
                                first.add(watch.seconds());
                            }
                            texts.hear(token);
                        });
                Optional<String> text = texts.end(made.tokens());
                return new Result(
                        request.model().toString(),
                        prompt,
                        made.tokens(),
                        text,
                        made.end(),
                        model.layout(),
                        model.notes(),
                        loaded,
                        first.getFirst() - loaded,
                        watch.seconds() - first.getFirst());
            }
        }
    }

    private static Optional<Path> tokenizer(Request request, Path folder) {
        return request.tokenizer()
                .or(() -> Optional.of(folder.resolve(TOKENIZER)).filter(Files::isRegularFile));
    }

    /** Tokens to text, told piece by piece. */
    private static final class Texts implements AutoCloseable {
        private final Optional<Path> file;
        private final Optional<Tokenizer> tokenizer;
        private final Consumer<String> heard;
        private final List<Long> tokens = new ArrayList<>();
        private int told;

        private Texts(Optional<Path> file, Optional<Tokenizer> tokenizer, Consumer<String> heard) {
            this.file = file;
            this.tokenizer = tokenizer;
            this.heard = heard;
        }

        static Texts open(Optional<Path> file, Consumer<String> heard) throws IOException {
            return new Texts(
                    file,
                    file.isEmpty()
                            ? Optional.empty()
                            : Optional.of(Tokenizer.unpadded(file.get(), OptionalInt.empty())),
                    heard);
        }

        List<Long> tokens(Request request, Job job) throws IOException {
            return switch (request.prompt()) {
                case Prompt.Tokens t -> t.ids();
                case Prompt.Text t -> required(request, job).tokens(t.text());
                case Prompt.Chat c -> c.message().tokens(required(request, job), file.orElseThrow());
            };
        }

        private Tokenizer required(Request request, Job job) {
            return tokenizer.orElseThrow(() -> new InvalidOptionException(
                    "the model's folder has no " + TOKENIZER,
                    job.name() + ", " + request.model(),
                    "give one with --tokenizer, or the prompt as numbers with --prompt-tokens"));
        }

        /** Tells what is complete of the text so far. */
        void hear(long token) {
            if (tokenizer.isEmpty()) {
                return;
            }
            tokens.add(token);
            String text = tokenizer.get().text(tokens);
            if (!text.endsWith(INCOMPLETE)) {
                tell(text);
            }
        }

        private void tell(String text) {
            if (text.length() > told) {
                heard.accept(text.substring(told));
                told = text.length();
            }
        }

        /** The whole text, after telling what is left of it. */
        Optional<String> end(List<Long> all) {
            Optional<String> text = tokenizer.map(t -> t.text(all));
            text.ifPresent(this::tell);
            return text;
        }

        @Override
        public void close() {
            tokenizer.ifPresent(Tokenizer::close);
        }
    }
}
