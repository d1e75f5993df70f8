package dev.octet.trainer.checkpoint;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.collective.Collectives;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Work on a checkpoint that ranks do side by side: where one fails, all stop, with its name. */
final class Together {
    private static final char GOOD = '+';
    private static final char BAD = '-';

    private Together() {}

    /** The part of one rank. */
    interface Part {
        /** Does it; returns what the others are to know. */
        String run() throws IOException;
    }

    /** Work that may fail. */
    interface Work {
        void run() throws IOException;
    }

    /**
     * Has each rank do its part; returns when all have.
     *
     * @param where the checkpoint, for messages
     * @param undo what the first rank does when a part failed, once all ranks are through with theirs
     * @return what each rank says, in their order
     * @throws IOException as the part of this rank does
     * @throws UnavailableException when the part of another rank failed
     */
    static List<String> run(Collectives world, Path where, Part part, Work undo) throws IOException {
        String own;
        try {
            own = part.run();
        } catch (IOException | RuntimeException e) {
            tell(world, e);
            undo(world, undo);
            throw e;
        }
        List<String> said = new ArrayList<>();
        List<byte[]> all = world.gather(bytes(GOOD, own));
        for (int r = 0; r < all.size(); r++) {
            String text = new String(all.get(r), StandardCharsets.UTF_8);
            if (text.charAt(0) == BAD) {
                undo(world, undo);
                throw new UnavailableException(
                        "rank " + r + " could not write its part of the checkpoint: " + text.substring(1),
                        where.toString(),
                        "see what that rank says; the checkpoint before this one is whole");
            }
            said.add(text.substring(1));
        }
        return said;
    }

    private static void undo(Collectives world, Work undo) throws IOException {
        if (world.isFirst()) {
            undo.run();
        }
    }

    /** Tells the others why this rank cannot go on, unless they have gone, too. */
    private static void tell(Collectives world, Exception why) {
        try {
            world.gather(bytes(BAD, String.valueOf(why.getMessage())));
        } catch (UnavailableException e) {
            why.addSuppressed(e);
        }
    }

    private static byte[] bytes(char how, String text) {
        return (how + text).getBytes(StandardCharsets.UTF_8);
    }
}
