package dev.octet.trainer.checkpoint;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * A rank's share of the state in a checkpoint, a file of its own: {@code state-00002-of-00004.safetensors} is that of rank 1 of 4. One process writes {@code
 * state.safetensors}.
 *
 * @param rank from 0
 * @param ranks how many share the state
 */
record StateShard(int rank, int ranks) {
    /** All of the state. */
    static final StateShard WHOLE = new StateShard(0, 1);

    private static final Pattern NAME = Pattern.compile("state-(\\d{5})-of-(\\d{5})\\.safetensors");
    private static final String STEP = "step";

    String file() {
        return ranks == 1
                ? CheckpointFile.STATE
                : String.format(Locale.ROOT, "state-%05d-of-%05d.safetensors", rank + 1, ranks);
    }

    /** What the file says of itself. */
    Map<String, String> metadata(long step) {
        return ranks == 1 ? Map.of() : Map.of(STEP, String.valueOf(step), "rank", rank + " of " + ranks);
    }

    /** The shards of a checkpoint that lists these files: all that there should be, listed or not. */
    static List<StateShard> among(Collection<String> files) {
        for (String file : files) {
            Matcher m = NAME.matcher(file);
            if (m.matches()) {
                int ranks = Math.max(2, Integer.parseInt(m.group(2)));
                return IntStream.range(0, ranks)
                        .mapToObj(r -> new StateShard(r, ranks))
                        .toList();
            }
        }
        return List.of(WHOLE);
    }

    /** For messages; empty for the whole state. */
    String owner() {
        return ranks == 1 ? "" : ": the share of rank " + rank + " of " + ranks;
    }

    /** What is wrong with a file of this name that belongs to the checkpoint of another step; empty for nothing. */
    String otherStep(Path folder, long step) throws IOException {
        if (ranks == 1) {
            return "";
        }
        try (ModelFile file = ModelFile.open(folder.resolve(file()))) {
            String own = file.model().metadata().getOrDefault(STEP, String.valueOf(step));
            return own.equals(String.valueOf(step)) ? "" : file() + " is of step " + own + ", not " + step + owner();
        } catch (MalformedModelException e) {
            return ""; // its digest says so
        }
    }
}
