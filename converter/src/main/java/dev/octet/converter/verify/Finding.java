package dev.octet.converter.verify;

import java.util.List;

/**
 * One way in which a model breaks a rule, with all places where it does.
 *
 * @param rule the rule's id
 * @param consumers for whom it matters, of those asked for
 * @param what what is wrong
 * @param count in how many places
 * @param places the first few of them
 * @param fix how to fix it
 * @param source where the demand is known from
 */
public record Finding(
        String rule,
        Severity severity,
        List<Consumer> consumers,
        String what,
        long count,
        List<Place> places,
        String fix,
        String source) {
    /** How many places a finding lists. */
    public static final int MAX_PLACES = 8;

    /**
     * A tensor, file, module, node or field.
     *
     * @param detail the numbers of this place; may be empty
     */
    public record Place(String name, String detail) {
        @Override
        public String toString() {
            return detail.isEmpty() ? name : name + " (" + detail + ")";
        }
    }

    public Finding {
        consumers = List.copyOf(consumers);
        places = List.copyOf(places);
    }
}
