package dev.octet.quant.layout;

import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * One entry of a list of modules in a compressed-tensors configuration ({@code targets}, {@code ignore}): the name of a class, the path
 * of a module, or {@code re:} and a regular expression that is matched from the start of the path and need not reach its end
 * (compressed-tensors, {@code utils/match.py}: {@code re.match}).
 *
 * <p>Files hold no class names of modules, so a class and a path look alike until one of them matches; see {@link Name#isClass}.
 *
 * <p>Configurations come from anywhere: an expression that Java cannot read is an {@link Invalid}, which matches nothing, and one that
 * once takes more than {@link #MAX_STEPS} looks at characters matches nothing from then on, as one with nested repetitions could run for
 * ages.
 */
public sealed interface ModulePattern {
    /** Looks at characters after which an expression counts as hostile: real ones take a few hundred for a path. */
    int MAX_STEPS = 200_000;

    /** Longer expressions are {@link Invalid}. */
    int MAX_LENGTH = 10_000;

    /** The entry as it stands in the configuration. */
    String text();

    /** Whether the module at {@code path} is meant. */
    boolean matches(String path);

    /** The path of a module, or the name of a class. */
    record Name(String text) implements ModulePattern {
        @Override
        public boolean matches(String path) {
            return text.equals(path);
        }

        /** Whether this looks like a class: one word that starts with a capital, {@code Linear}. */
        public boolean isClass() {
            return !text.isEmpty() && Character.isUpperCase(text.charAt(0)) && text.indexOf('.') < 0;
        }

        /** Whether this is a class that attends, {@code LlamaAttention}, as vLLM tells ({@code compressed_tensors.py}, {@code from_config}). */
        public boolean isAttention() {
            return isClass() && text.endsWith("Attention");
        }
    }

    /** A regular expression, found at the start of a path. */
    final class Regex implements ModulePattern {
        private final String text;
        private final Pattern pattern;
        private volatile boolean spent;

        private Regex(String text, Pattern pattern) {
            this.text = text;
            this.pattern = pattern;
        }

        @Override
        public String text() {
            return text;
        }

        @Override
        public boolean matches(String path) {
            if (spent) {
                return false;
            }
            try {
                return pattern.matcher(new CountedText(path)).lookingAt();
            } catch (CountedText.TooManySteps | StackOverflowError e) {
                spent = true; // a checkpoint has thousands of paths: trying each to the limit would take ages again
                return false;
            }
        }

        /** Whether some path took too many steps, since when this matches nothing. */
        public boolean isSpent() {
            return spent;
        }
    }

    /** An expression that cannot be used, and why; matches nothing. */
    record Invalid(String text, String reason) implements ModulePattern {
        @Override
        public boolean matches(String path) {
            return false;
        }
    }

    /** The pattern that {@code text} stands for. Never fails. */
    static ModulePattern of(String text) {
        if (!text.startsWith("re:")) {
            return new Name(text);
        }
        if (text.length() > MAX_LENGTH) {
            return new Invalid(text, "longer than " + MAX_LENGTH + " characters");
        }
        try {
            return new Regex(text, Pattern.compile(javaSyntax(text.substring("re:".length()))));
        } catch (PatternSyntaxException e) {
            return new Invalid(text, e.getDescription());
        } catch (StackOverflowError e) {
            return new Invalid(text, "nested too deeply");
        }
    }

    /** Python names a group {@code (?P<name>...)}, Java {@code (?<name>...)}. */
    private static String javaSyntax(String python) {
        return python.replace("(?P<", "(?<");
    }
}
