package dev.octet.cli;

import dev.octet.converter.data.ChatPrompt;
import dev.octet.converter.generate.Sampling;
import dev.octet.pipeline.Generate;
import dev.octet.pipeline.TaskListener;
import java.io.IOException;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet generate MODEL --prompt TEXT}: a text continued by a model, plain or quantised. */
final class GenerateCommand implements Command {
    private static final int MOST_TOKENS = 1 << 20;
    private static final double MOST_TEMPERATURE = 100;

    private static final Option PROMPT = Flags.value("prompt", "TEXT", "text to continue");
    private static final Option CHAT =
            Flags.flag("chat", "the prompt is a user's message; the model's chat template goes around it");
    private static final Option SYSTEM = Flags.value("system", "TEXT", "message of the system before it, with --chat");
    private static final PathOption CHAT_TEMPLATE =
            PathOption.read("chat-template", "FILE", "template for --chat (default: the one next to the tokenizer)");
    private static final Option PROMPT_TOKENS =
            Flags.value("prompt-tokens", "ID,ID,..", "tokens to continue, instead of a text");
    private static final Option TOKENS =
            Flags.value("max-tokens", "N", "tokens to add at most (default: " + Generate.DEFAULT_TOKENS + ")");
    private static final Option TEMPERATURE = Flags.value(
            "temperature",
            "T",
            "draw tokens, from logits divided by T (default: the most probable token; 1 with --top-k or --top-p)");
    private static final Option TOP_K =
            Flags.value("top-k", "K", "draw from the K most probable tokens (default: all)");
    private static final Option TOP_P = Flags.value(
            "top-p", "P", "draw from the most probable tokens that together reach the probability P (default: 1)");
    private static final Option SEED = Flags.value("seed", "N", "seed of the draws (default: 0)");

    /**
     * What {@code --json} prints.
     *
     * @param layout of the quantised weights, {@code plain} when none is
     * @param text null where there is no tokenizer
     * @param end {@code end-of-text}, {@code length} or {@code positions}
     */
    record Answer(
            String model,
            String layout,
            List<Long> promptTokens,
            List<Long> tokens,
            @Nullable String text,
            String end,
            List<String> notes,
            double loadSeconds,
            double promptSeconds,
            double tokenSeconds) {}

    @Override
    public String name() {
        return "generate";
    }

    @Override
    public String summary() {
        return "Continue a text with a model, plain or quantised.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(
                PROMPT,
                CHAT,
                SYSTEM,
                CHAT_TEMPLATE,
                PROMPT_TOKENS,
                TOKENS,
                TEMPERATURE,
                TOP_K,
                TOP_P,
                SEED,
                DataFlags.TOKENIZER,
                Flags.THREADS);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet generate Llama-3.2-1B-FP8 --prompt 'The capital of France is' --max-tokens 20",
                "octet generate Llama-3.2-1B-Instruct --chat --prompt 'What is FP8?' --system 'Answer in one"
                        + " sentence.'",
                "octet generate Qwen3-0.6B --prompt 'Once upon a time' --temperature 0.8 --top-p 0.95 --seed 7");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        boolean json = arguments.has(Flags.JSON);
        Consumer<String> heard = piece -> {
            screen.out().print(printable(piece));
            screen.out().flush();
        };
        Generate.Request request = new Generate.Request(
                arguments.operand(0),
                prompt(arguments),
                arguments.integer(TOKENS, Generate.DEFAULT_TOKENS, 1, MOST_TOKENS),
                sampling(arguments),
                arguments.integer(SEED, 0, Integer.MIN_VALUE, Integer.MAX_VALUE),
                arguments.path(DataFlags.TOKENIZER));
        Generate.Result made = Generate.run(request, arguments.job(TaskListener.NONE), json ? piece -> {} : heard);
        String end = made.end().name().toLowerCase(Locale.ROOT).replace('_', '-');
        if (json) {
            screen.out()
                    .println(Json.answer(
                            arguments.verb(),
                            new Answer(
                                    made.model(),
                                    made.layout(),
                                    made.prompt(),
                                    made.tokens(),
                                    made.text().orElse(null),
                                    end,
                                    made.notes(),
                                    made.loadSeconds(),
                                    made.promptSeconds(),
                                    made.tokenSeconds())));
            return ExitCode.OK;
        }
        screen.out().println(made.text().isPresent() ? "" : joined(made.tokens()));
        if (!arguments.has(Flags.QUIET)) {
            made.notes().forEach(note -> screen.err().println("note: " + note));
            screen.err().println(facts(made, end));
        }
        return ExitCode.OK;
    }

    /** Lines as they are, other control characters written out. */
    private static String printable(String piece) {
        return Arrays.stream(piece.split("\n", -1)).map(Printable::of).collect(Collectors.joining("\n"));
    }

    private static Generate.Prompt prompt(Arguments arguments) {
        Optional<String> text = arguments.text(PROMPT);
        Optional<String> tokens = arguments.text(PROMPT_TOKENS);
        if (text.isPresent() == tokens.isPresent()) {
            throw arguments.usage(
                    text.isPresent() ? "--prompt and --prompt-tokens are both given" : "there is no prompt",
                    "give one with --prompt, or its tokens with --prompt-tokens");
        }
        boolean chat = arguments.has(CHAT);
        if (!chat && (arguments.has(SYSTEM) || arguments.path(CHAT_TEMPLATE).isPresent())) {
            throw arguments.usage(
                    (arguments.has(SYSTEM) ? "--system" : "--chat-template") + " is for a chat", "add --chat");
        }
        if (chat && text.isEmpty()) {
            throw arguments.usage("--chat needs a text, not tokens", "give the user's message with --prompt");
        }
        if (chat) {
            return new Generate.Prompt.Chat(new ChatPrompt(
                    text.orElseThrow(),
                    arguments.text(SYSTEM),
                    arguments.path(CHAT_TEMPLATE),
                    LocalDate.now(ZoneId.systemDefault())));
        }
        if (text.isPresent()) {
            return new Generate.Prompt.Text(text.get());
        }
        List<Long> ids = new ArrayList<>();
        for (String id : tokens.orElseThrow().split(",", -1)) {
            try {
                ids.add(Long.parseLong(id.strip()));
            } catch (NumberFormatException e) {
                throw arguments.usage(
                        "--prompt-tokens needs whole numbers, got '" + id + "'", "separate them by commas: 1,15,7");
            }
        }
        return new Generate.Prompt.Tokens(ids);
    }

    private static Sampling sampling(Arguments arguments) {
        boolean drawn = arguments.has(TEMPERATURE) || arguments.has(TOP_K) || arguments.has(TOP_P);
        return drawn
                ? new Sampling(
                        arguments.number(TEMPERATURE, 0, MOST_TEMPERATURE).orElse(1.0),
                        arguments.integer(TOP_K, 0, 1, Integer.MAX_VALUE),
                        arguments.number(TOP_P, Double.MIN_VALUE, 1).orElse(1.0))
                : Sampling.GREEDY;
    }

    private static String joined(List<Long> tokens) {
        return String.join(",", tokens.stream().map(String::valueOf).toList());
    }

    private static String facts(Generate.Result made, String end) {
        int behindFirst = made.tokens().size() - 1;
        String rate = behindFirst > 0 && made.tokenSeconds() > 0
                ? String.format(Locale.ROOT, ", %.3g tokens/s", behindFirst / made.tokenSeconds())
                : "";
        return String.format(
                Locale.ROOT,
                "%d tokens behind %d of the prompt, end: %s; loaded in %.1f s, first token after %.2f s%s",
                made.tokens().size(),
                made.prompt().size(),
                end,
                made.loadSeconds(),
                made.promptSeconds(),
                rate);
    }
}
