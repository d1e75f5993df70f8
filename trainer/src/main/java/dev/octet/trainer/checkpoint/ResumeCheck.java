package dev.octet.trainer.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Predicate;

/** Checks that a run resumes with the settings it was started with. */
public final class ResumeCheck {
    private static final int SHOWN = 5;

    private ResumeCheck() {}

    /**
     * Compares settings key by key.
     *
     * @param free keys that may differ
     * @param where the checkpoint, for the message
     * @throws InvalidOptionException when settings differ; the message lists keys with both values
     */
    public static void require(
            Map<String, String> saved, Map<String, String> now, Predicate<String> free, String where) {
        TreeSet<String> keys = new TreeSet<>(saved.keySet());
        keys.addAll(now.keySet());
        List<String> different = new ArrayList<>();
        for (String key : keys) {
            String before = saved.getOrDefault(key, "(absent)");
            String after = now.getOrDefault(key, "(absent)");
            if (!before.equals(after) && !free.test(key)) {
                different.add(key + " was " + before + " and is " + after);
            }
        }
        if (!different.isEmpty()) {
            String more = different.size() > SHOWN ? ", and " + (different.size() - SHOWN) + " more" : "";
            throw new InvalidOptionException(
                    "the run cannot resume: "
                            + String.join("; ", different.subList(0, Math.min(SHOWN, different.size()))) + more,
                    where,
                    "restore these settings, or start a new run in another folder");
        }
    }
}
