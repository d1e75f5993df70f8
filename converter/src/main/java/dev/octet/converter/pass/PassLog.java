package dev.octet.converter.pass;

import java.util.ArrayList;
import java.util.List;

/** What the passes did and why they left something, in the order of events, for the report. Not thread-safe. */
public final class PassLog {
    /**
     * One remark.
     *
     * @param pass {@link Pass#name()}
     * @param node the node or value it is about; empty when about the whole model
     * @param text one line
     */
    public record Note(String pass, String node, String text) {
        @Override
        public String toString() {
            return pass + ": " + (node.isEmpty() ? "" : node + ": ") + text;
        }
    }

    private final List<Note> notes = new ArrayList<>();

    /** An empty log. */
    public PassLog() {}

    /** Adds a remark. */
    public void note(String pass, String node, String text) {
        notes.add(new Note(pass, node, text));
    }

    /** All remarks so far, oldest first. */
    public List<Note> notes() {
        return List.copyOf(notes);
    }

    /** The remarks of one pass, oldest first. */
    public List<Note> notes(String pass) {
        return notes.stream().filter(n -> n.pass().equals(pass)).toList();
    }
}
