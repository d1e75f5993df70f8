package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.util.List;
import java.util.stream.Collectors;

/** Result of a search for a library. */
sealed interface LibrarySearch {
    /** Everything tried without success. */
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
     * One place and the outcome of its search.
     *
     * @param names of the files tried: {@code libnvrtc.so.13, libnvrtc.so.12}
     * @param outcome {@code not there}, or the loader's error for an existing file
     */
    record Try(String place, String names, String outcome, boolean broken) {
        @Override
        public String toString() {
            return broken ? place + "/" + names + " (" + outcome + ")" : place;
        }
    }

    /** The library is loaded. */
    record Found(LoadedLibrary loaded, List<Try> tried) implements LibrarySearch {}

    /** No library could be loaded. */
    record Absent(CudaLibrary library, String what, List<Try> tried, String hint, String remedy)
            implements LibrarySearch {
        /** All places, in one line. */
        String where() {
            return "tried " + tried.stream().map(Try::toString).collect(Collectors.joining(", ")) + "; " + hint;
        }

        UnavailableException exception() {
            return new UnavailableException(what, where(), remedy);
        }
    }
}
