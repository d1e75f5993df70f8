package dev.octet.trainer.device.cuda;

import dev.octet.trainer.device.cuda.LibraryPlaces.Place;
import dev.octet.trainer.device.cuda.LibrarySearch.Try;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Looks for the libraries of an installed CUDA: place after place as {@link LibraryPlaces} orders them, in each the newest major version
 * first that the driver supports. A file that is there but cannot be loaded is passed over and logged.
 */
final class CudaLibraries {
    /** For searches that no driver limits. */
    static final int ANY_MAJOR = Integer.MAX_VALUE;

    private final LibraryPlaces places;
    private final String hint;
    private final Opener opener;

    /** What loads a file: the system, or a test. */
    interface Opener {
        /**
         * Loads a library.
         *
         * @param file a path, or a bare name for the system's loader to search
         * @throws IllegalArgumentException when it cannot be loaded: why
         */
        SymbolLookup open(String file);
    }

    CudaLibraries(LibraryPlaces places, String hint, Opener opener) {
        this.places = places;
        this.hint = hint;
        this.opener = opener;
    }

    /** The search of this system. */
    static CudaLibraries ofSystem() {
        return of(System.getenv());
    }

    /** The search of this system with other variables. */
    static CudaLibraries of(Map<String, String> environment) {
        return new CudaLibraries(
                LibraryPlaces.of(environment, Path.of("/")),
                LibraryPlaces.hint(environment),
                // never unloaded: these libraries leave threads and handlers of their own behind
                file -> SymbolLookup.libraryLookup(file, Arena.global()));
    }

    /** Looks for a library of any major version. */
    LibrarySearch find(CudaLibrary library) {
        return find(library, ANY_MAJOR);
    }

    /**
     * Looks for a library.
     *
     * @param newestMajor newest CUDA that the driver supports
     */
    LibrarySearch find(CudaLibrary library, int newestMajor) {
        List<Try> tried = new ArrayList<>();
        if (!CudaLibraries.class.getModule().isNativeAccessEnabled()) {
            return new LibrarySearch.Absent(
                    library,
                    library.stem() + " cannot be loaded: native access is not enabled",
                    tried,
                    hint,
                    "start java with --enable-native-access=ALL-UNNAMED");
        }
        List<Integer> majors = library.majors(newestMajor);
        for (Place place : places.places()) {
            for (int major : majors) {
                LoadedLibrary loaded = load(library, major, place, tried);
                if (loaded != null) {
                    return new LibrarySearch.Found(loaded, tried);
                }
            }
            if (tried.stream().noneMatch(t -> t.place().equals(place.toString()))) {
                tried.add(new Try(place.toString(), names(library, majors), "not there", false));
            }
        }
        return new LibrarySearch.Absent(
                library, absence(library, majors, newestMajor, tried), tried, hint, library.remedy());
    }

    private static String absence(CudaLibrary library, List<Integer> majors, int newestMajor, List<Try> tried) {
        if (majors.isEmpty()) {
            return "the driver supports CUDA " + newestMajor + " only, Octet needs " + library.stem()
                    + " of CUDA 12 or later";
        }
        boolean broken = tried.stream().anyMatch(Try::broken);
        return names(library, majors) + (broken ? " cannot be loaded" : " was not found");
    }

    private static String names(CudaLibrary library, List<Integer> majors) {
        return majors.stream().map(library::file).collect(Collectors.joining(" or "));
    }

    private @Nullable LoadedLibrary load(CudaLibrary library, int major, Place place, List<Try> tried) {
        String name = library.file(major);
        Path folder = place.folder();
        if (folder != null && !Files.exists(folder.resolve(name))) {
            return null;
        }
        if (folder == null) {
            return opened(name)
                    .map(f -> new LoadedLibrary(library, loadedFrom(name), major, f))
                    .orElse(null);
        }
        Path file = folder.resolve(name);
        String reason = defect(file);
        if (reason.isEmpty()) {
            loadCompanions(library, major, folder);
            Optional<SymbolLookup> symbols = opened(file.toString());
            if (symbols.isPresent()) {
                return new LoadedLibrary(library, file.toString(), major, symbols.get());
            }
            // the JDK does not pass the loader's words on
            reason = "the system's loader refuses it; ldd on it tells why";
        }
        tried.add(new Try(folder.toString(), name, reason, true));
        return null;
    }

    private Optional<SymbolLookup> opened(String file) {
        try {
            return Optional.of(opener.open(file));
        } catch (IllegalArgumentException e) {
            return Optional.empty();
        }
    }

    /** The compiler opens a file with its built-in functions by its bare name, which succeeds if it was opened before by its path. */
    private void loadCompanions(CudaLibrary library, int major, Path folder) {
        if (library == CudaLibrary.NVRTC) {
            for (Path companion : LibraryPlaces.children(folder, "libnvrtc-builtins.so." + major + ".*")) {
                opened(companion.toString());
            }
        }
    }

    /** What is wrong with a file, as its first bytes tell; empty if nothing. */
    private static String defect(Path file) {
        try (InputStream in = Files.newInputStream(file)) {
            byte[] head = in.readNBytes(20);
            boolean elf = head.length == 20 && head[0] == 0x7f && head[1] == 'E' && head[2] == 'L' && head[3] == 'F';
            if (!elf) {
                return "not a shared library";
            }
            // e_ident[EI_CLASS] 2: 64 bits; e_machine 62: x86-64
            return head[4] == 2 && head[18] == 62 ? "" : "made for another processor";
        } catch (IOException e) {
            return "cannot be read: " + e;
        }
    }

    /** Which file the loader took, as the system tells it; the bare name where it does not. */
    private static String loadedFrom(String name) {
        try (var lines = Files.lines(Path.of("/proc/self/maps"))) {
            return lines.filter(l -> l.contains("/"))
                    .map(l -> l.substring(l.indexOf('/')))
                    .filter(p -> p.contains("/" + name))
                    .findFirst()
                    .orElse(name);
        } catch (IOException | UncheckedIOException e) {
            return name;
        }
    }
}
