package dev.octet.converter.verify;

import dev.octet.quant.layout.ModulePattern;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The patterns of modules that a configuration leaves out. compressed-tensors takes paths, class names, and {@code re:} with an expression
 * anchored at the start; fp8 takes paths and parts of paths; ModelOpt takes wildcards.
 *
 * <p>Where consumers differ, the widest reading is taken: a pattern without a match here has none for any of them.
 */
final class Exclusions {
    private final List<String> texts;
    private final Set<String> plain = new HashSet<>();

    /** How long those are: spares looking up the runs of a path that are of no such length. */
    private final BitSet plainLengths = new BitSet();

    private final List<Globbed> globs = new ArrayList<>();
    private final List<ModulePattern> expressions = new ArrayList<>();

    /** A pattern with wildcards, and the text before the first of them, which sorts most modules out. */
    private record Globbed(String text, String head) {
        boolean matches(String module) {
            return module.contains(head) && glob(text, module);
        }
    }

    private Exclusions(List<String> texts) {
        this.texts = List.copyOf(new LinkedHashSet<>(texts));
    }

    static Exclusions of(QuantSettings settings) {
        Exclusions exclusions = new Exclusions(settings.exclusions());
        for (String text : exclusions.texts) {
            if (settings.method() == QuantSettings.Method.COMPRESSED_TENSORS && text.startsWith("re:")) {
                exclusions.expressions.add(ModulePattern.of(text));
            } else if (text.indexOf('*') >= 0 || text.indexOf('?') >= 0) {
                int star = text.indexOf('*') < 0 ? text.length() : text.indexOf('*');
                int any = text.indexOf('?') < 0 ? text.length() : text.indexOf('?');
                exclusions.globs.add(new Globbed(text, text.substring(0, Math.min(star, any))));
            } else {
                String stripped = strip(text);
                exclusions.plain.add(stripped);
                exclusions.plainLengths.set(stripped.length());
            }
        }
        return exclusions;
    }

    /** Some lists end paths with a dot, some name the weight. */
    private static String strip(String text) {
        String stripped = text.endsWith(".weight") ? text.substring(0, text.length() - ".weight".length()) : text;
        return stripped.endsWith(".") ? stripped.substring(0, stripped.length() - 1) : stripped;
    }

    /** All patterns, each once. */
    List<String> texts() {
        return texts;
    }

    /** Whether {@code text} names a class: files do not record the classes of modules. */
    private static boolean isClass(String text) {
        return new ModulePattern.Name(text).isClass();
    }

    /** Whether a module is left out. */
    boolean match(String module) {
        return plainRun(module) != null
                || globs.stream().anyMatch(g -> g.matches(module))
                || expressions.stream().anyMatch(e -> e.matches(module));
    }

    /** Whether a module is named as compressed-tensors compares: its whole path, or an expression at its start. */
    boolean names(String module) {
        return texts.contains(module) || expressions.stream().anyMatch(e -> e.matches(module));
    }

    /** The run of parts of {@code module} that is one of the patterns without wildcards. */
    private @Nullable String plainRun(String module) {
        if (plain.isEmpty()) {
            return null;
        }
        for (int from = 0; from >= 0; from = next(module, from)) {
            for (int to = end(module, from); to >= 0; to = to == module.length() ? -1 : end(module, to + 1)) {
                if (plainLengths.get(to - from)) {
                    String run = module.substring(from, to);
                    if (plain.contains(run)) {
                        return run;
                    }
                }
            }
        }
        return null;
    }

    private static int end(String module, int from) {
        int dot = module.indexOf('.', from);
        return dot < 0 ? module.length() : dot;
    }

    private static int next(String module, int from) {
        int dot = module.indexOf('.', from);
        return dot < 0 ? -1 : dot + 1;
    }

    /** The patterns that match none of {@code modules}; class names left out. */
    List<String> unmatched(Collection<String> modules) {
        Set<String> open = new LinkedHashSet<>(texts);
        open.removeIf(Exclusions::isClass);
        Set<String> found = new HashSet<>();
        for (String module : modules) {
            String run = plainRun(module);
            if (run != null && found.add(run)) {
                open.removeIf(t -> strip(t).equals(run));
            }
            if (open.isEmpty()) {
                return List.of();
            }
            // a pattern leaves the set as soon as it matches, so this is short for all but the first modules
            globs.stream()
                    .filter(g -> open.contains(g.text()) && g.matches(module))
                    .forEach(g -> open.remove(g.text()));
            expressions.stream()
                    .filter(e -> open.contains(e.text()) && e.matches(module))
                    .forEach(e -> open.remove(e.text()));
        }
        // one module can match several plain patterns; what is left is looked for on its own
        open.removeIf(t -> plain.contains(strip(t)) && modules.stream().anyMatch(m -> contains(m, strip(t))));
        return List.copyOf(open);
    }

    private static boolean contains(String module, String run) {
        return ("." + module + ".").contains("." + run + ".");
    }

    /** Whether {@code pattern} with {@code *} and {@code ?} matches the whole path, or the path from one of its parts on. */
    private static boolean glob(String pattern, String module) {
        for (int from = 0; from >= 0; from = next(module, from)) {
            if (globFrom(pattern, module, from)) {
                return true;
            }
        }
        return false;
    }

    /** The usual greedy match: only the last star is ever revisited, so the time is at most the product of the lengths. */
    private static boolean globFrom(String pattern, String text, int from) {
        int p = 0;
        int t = from;
        int star = -1;
        int mark = from;
        while (t < text.length()) {
            if (p < pattern.length()
                    && (pattern.charAt(p) == '?' || pattern.charAt(p) == text.charAt(t))
                    && pattern.charAt(p) != '*') {
                p++;
                t++;
            } else if (p < pattern.length() && pattern.charAt(p) == '*') {
                star = p++;
                mark = t;
            } else if (star >= 0) {
                p = star + 1;
                t = ++mark;
            } else {
                return false;
            }
        }
        while (p < pattern.length() && pattern.charAt(p) == '*') {
            p++;
        }
        return p == pattern.length();
    }
}
