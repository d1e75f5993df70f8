package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.util.List;
import java.util.stream.Collectors;

/** What came of looking for a library. */
sealed interface LibrarySearch {
    /** What was tried before it was found, or in vain. */
    List<Try> tried();

    /**
     * The library.
     *
     * @throws UnavailableException when it was not found
     */
    default LoadedLibrary orThrow() {
        return switch (this) {
            case Found f -> f.loaded();
            case Absent a -> throw a.exception();
        };
    }

    /**
     * One place and what came of it.
     *
     * @param names of the files: {@code libnvrtc.so.13, libnvrtc.so.12}
     * @param outcome {@code not there}, or the loader's words about a file that is there
     */
    record Try(String place, String names, String outcome, boolean broken) {
        @Override
        public String toString() {
            return broken ? place + "/" + names + " (" + outcome + ")" : place;
        }
    }

    /** It is loaded. */
    record Found(LoadedLibrary loaded, List<Try> tried) implements LibrarySearch {}

    /** There is none that can be loaded. */
    record Absent(CudaLibrary library, String what, List<Try> tried, String hint, String remedy)
            implements LibrarySearch {
        /** Every place in one line. */
        String where() {
            return "tried " + tried.stream().map(Try::toString).collect(Collectors.joining(", ")) + "; " + hint;
        }

        UnavailableException exception() {
            return new UnavailableException(what, where(), remedy);
        }
    }
}
