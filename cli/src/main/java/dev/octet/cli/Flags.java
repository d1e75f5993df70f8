package dev.octet.cli;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.commons.cli.Option;

/** Options that several verbs share, so that they are spelled and described once. */
final class Flags {
    static final Option HELP = flag("help", "show this page");
    static final Option JSON = flag("json", "print one JSON object on standard output, and nothing else there");
    static final Option QUIET = flag("quiet", "no progress on standard error");
    static final Option PROGRESS = value(
            "progress",
            "json|plain|none",
            "how to show progress (default: a bar on a terminal, plain lines elsewhere)");
    static final Option COLOR = value(
            "color",
            "auto|always|never",
            "colour in results and errors (default: auto, on terminals, unless NO_COLOR is set)");
    static final Option THREADS = value("threads", "N", "threads to use (default: all cores)");
    static final Option FORCE = flag("force", "overwrite the output if it exists (default: refuse)");
    static final Option DRY_RUN = flag("dry-run", "say what would be done; compute and write nothing");
    static final PathOption OUTPUT = PathOption.output("FILE", "where to write the result");

    private Flags() {}

    /** What every verb takes. */
    static List<Option> common() {
        return List.of(JSON, QUIET, PROGRESS, COLOR, HELP);
    }

    /** All options of {@code command}, its own first. */
    static List<Option> of(Command command) {
        List<Option> all = new ArrayList<>(command.options());
        all.addAll(common());
        return all;
    }

    /** What {@code --color} says in a command line that is not parsed yet, and may be wrong. */
    static Color color(List<String> words) {
        String name = "--" + COLOR.getLongOpt();
        Color color = Color.AUTO;
        for (int i = 0; i < words.size(); i++) {
            String word = words.get(i);
            String value = word.startsWith(name + "=")
                    ? word.substring(name.length() + 1)
                    : word.equals(name) && i + 1 < words.size() ? words.get(i + 1) : "";
            color = Color.CHOICES.getOrDefault(value, color);
        }
        return color;
    }

    static Option flag(String name, String description) {
        return Option.builder().longOpt(name).desc(description).get();
    }

    static Option value(String name, String argument, String description) {
        return Option.builder()
                .longOpt(name)
                .hasArg()
                .argName(argument)
                .desc(description)
                .get();
    }

    /** An option that may be given several times. */
    static Option repeatable(String name, String argument, String description) {
        return value(name, argument, description + " (repeatable)");
    }

    /** Every name of two kinds of choices, each once. */
    static Set<String> all(Map<String, ?> some, Map<String, ?> others) {
        Set<String> names = new LinkedHashSet<>(some.keySet());
        names.addAll(others.keySet());
        return names;
    }

    /** What an option may be, by the name that users type, in this order. */
    static <T> Map<String, T> byName(List<T> all, Function<T, String> name) {
        Map<String, T> map = new LinkedHashMap<>();
        all.forEach(t -> map.put(name.apply(t), t));
        return map;
    }
}
