package dev.octet.spark;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.MissingArgumentException;
import org.apache.commons.cli.Option;
import org.apache.commons.cli.Options;
import org.apache.commons.cli.ParseException;
import org.apache.commons.cli.UnrecognizedOptionException;

/**
 * What stands after the name of a verb. Names and meanings are those of {@code octet}; a test there holds it.
 *
 * @param verb the verb's name
 * @param line the options given
 */
public record SubmittedVerb(String verb, CommandLine line) {
    /** Verbs, each with the names of its options; a name that ends in {@code =} takes a value. */
    public static final Map<String, List<String>> VERBS = verbs();

    private static Map<String, List<String>> verbs() {
        Map<String, List<String>> verbs = new LinkedHashMap<>();
        verbs.put(
                "quantize",
                List.of(
                        "output=",
                        "recipe=",
                        "target=",
                        "keep=",
                        "only=",
                        "include=",
                        "statistics=",
                        "calibrator=",
                        "keep-scales",
                        "exact-only",
                        "force",
                        "dry-run"));
        verbs.put("dequantize", List.of("output=", "dtype=", "keep-scales", "exact-only", "force", "dry-run"));
        verbs.put("convert", List.of("output=", "target=", "recipe=", "exact-only", "force", "dry-run"));
        verbs.put("calibrate", List.of("output=", "data=", "tokenizer=", "max-length=", "force"));
        verbs.put("diff", List.of("only="));
        verbs.put("verify", List.of("for=", "against=", "tp=", "deep"));
        verbs.put(
                "train",
                List.of(
                        "output=",
                        "config=",
                        "set=",
                        "deepspeed=",
                        "accelerate=",
                        "hf-args=",
                        "deepspeed-version=",
                        "resume",
                        "model=",
                        "from-step=",
                        "steps=",
                        "device=",
                        "threads=",
                        "no-memory-check"));
        verbs.put("evaluate", List.of("data=", "tokenizer=", "max-length=", "gate=", "perplexity", "no-layers"));
        return Map.copyOf(verbs);
    }

    /**
     * Reads a command line.
     *
     * @param arguments the verb, then options and operands in any order
     * @throws InvalidOptionException when there is no such verb or option; names the nearest
     */
    static SubmittedVerb parse(List<String> arguments) {
        String verb = arguments.isEmpty() ? "" : arguments.getFirst();
        List<String> names = VERBS.get(verb);
        if (names == null) {
            throw new InvalidOptionException(
                    verb.isEmpty() ? "no verb is given" : "'" + verb + "' is not a verb that runs on Spark",
                    "the first argument after the jar",
                    Nearest.advice(verb, VERBS.keySet()));
        }
        Options options = new Options();
        for (String name : names) {
            boolean value = name.endsWith("=");
            String plain = value ? name.substring(0, name.length() - 1) : name;
            options.addOption(Option.builder(plain.equals("output") ? "o" : null)
                    .longOpt(plain)
                    .hasArg(value)
                    .get());
        }
        try {
            return new SubmittedVerb(
                    verb,
                    DefaultParser.builder()
                            .setAllowPartialMatching(false)
                            .get()
                            .parse(
                                    options,
                                    arguments.subList(1, arguments.size()).toArray(String[]::new)));
        } catch (UnrecognizedOptionException e) {
            List<String> dashed =
                    names.stream().map(n -> "--" + n.replace("=", "")).toList();
            throw new InvalidOptionException(
                    verb + " has no option " + e.getOption() + " on Spark",
                    "option " + e.getOption(),
                    Nearest.advice(e.getOption(), dashed),
                    e);
        } catch (MissingArgumentException e) {
            String name = "--" + e.getOption().getLongOpt();
            throw new InvalidOptionException(name + " needs a value", "option " + name, "put the value behind it", e);
        } catch (ParseException e) {
            throw new InvalidOptionException(String.valueOf(e.getMessage()), "octet " + verb, "check the options", e);
        }
    }

    boolean has(String name) {
        return line.hasOption(name);
    }

    Optional<String> text(String name) {
        return Optional.ofNullable(line.getOptionValue(name));
    }

    List<String> texts(String name) {
        String[] values = line.getOptionValues(name);
        return values == null ? List.of() : Arrays.asList(values);
    }

    /** What is listed behind an option, with commas between; empty without it. */
    List<String> list(String name) {
        return text(name).stream()
                .flatMap(v -> List.of(v.split(",", -1)).stream())
                .map(String::strip)
                .filter(v -> !v.isEmpty())
                .toList();
    }

    /** The value of an option that must be there. */
    String required(String name) {
        return text(name)
                .orElseThrow(() -> new InvalidOptionException(
                        "--" + name + " is missing", "octet " + verb, "give it: --" + name + " VALUE"));
    }

    /** What an option chooses. */
    <T> Optional<T> choice(String name, Map<String, T> choices) {
        return text(name).map(typed -> choice(name, typed, choices));
    }

    /** What a typed text chooses. */
    static <T> T choice(String name, String typed, Map<String, T> choices) {
        T chosen = choices.get(typed);
        if (chosen == null) {
            throw new InvalidOptionException(
                    "'" + typed + "' is not a value of --" + name + " on Spark",
                    "option --" + name,
                    Nearest.advice(typed, choices.keySet()));
        }
        return chosen;
    }

    /** A number of at least 1. */
    int number(String name, int otherwise) {
        return number(name, line.getOptionValue(name, String.valueOf(otherwise)), otherwise);
    }

    /** A typed number of at least 1. */
    static int number(String name, String typed, int example) {
        try {
            int number = Integer.parseInt(typed);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // told below, as a number that is too small
        }
        throw new InvalidOptionException(
                "--" + name + " needs a number of at least 1, got '" + typed + "'",
                "option --" + name,
                "for example --" + name + " " + example);
    }

    /** The operands, of which there must be so many. */
    List<String> operands(int count, String names) {
        List<String> operands = new ArrayList<>(line.getArgList());
        if (operands.size() != count) {
            throw new InvalidOptionException(
                    verb + " takes " + names + ", and " + operands.size() + " were given: " + operands,
                    "octet " + verb,
                    "write: " + verb + " " + names);
        }
        return operands;
    }
}
