package dev.octet.trainer.observe;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Which layers a section is for, by the rules of nvidia-dlfw-inspect's configuration. */
public sealed interface LayerSelection {
    /** Layers with these names; each has to exist. */
    record Exact(List<String> names) implements LayerSelection {
        public Exact {
            names = List.copyOf(names);
        }

        @Override
        public boolean selects(String name) {
            return names.contains(name);
        }
    }

    /**
     * Layers with a match anywhere in their name.
     *
     * @param pattern a regular expression; as text, so that two sections can be compared
     */
    record Regex(String pattern) implements LayerSelection {
        @Override
        public boolean selects(String name) {
            return Pattern.compile(pattern).matcher(name).find();
        }
    }

    /**
     * Layers with one of these numbers and one of these texts in their name.
     *
     * @param numbers of the layer; empty for all
     * @param types parts of a name; empty for all
     */
    record Kinds(List<StepGate.Range> numbers, List<String> types) implements LayerSelection {
        private static final Pattern NUMBER = Pattern.compile("(?<!fc)\\d+");

        public Kinds {
            numbers = List.copyOf(numbers);
            types = List.copyOf(types);
        }

        @Override
        public boolean selects(String name) {
            return (types.isEmpty() || types.stream().anyMatch(name::contains)) && hasNumber(name);
        }

        private boolean hasNumber(String name) {
            if (numbers.isEmpty()) {
                return true;
            }
            Matcher found = NUMBER.matcher(name);
            if (!found.find() || found.group().length() > 9) {
                return false;
            }
            long number = Long.parseLong(found.group());
            return numbers.stream().anyMatch(r -> r.first() <= number && number <= r.last());
        }

        /** Whether a name has more than one number, so that which of them is the layer's is not known. */
        boolean isAmbiguous(String name) {
            Matcher found = NUMBER.matcher(name);
            return !numbers.isEmpty() && found.find() && found.find();
        }
    }

    /** Whether it takes a layer of this name. */
    boolean selects(String name);
}
