package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where libraries are looked for, on made-up systems. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudaLibrariesTest {
    @TempDir
    Path root;

    private final Map<String, String> environment = new HashMap<>();
    private final List<String> opened = new ArrayList<>();

    /** Loads every file; bare names are in no loader's cache. */
    private CudaLibraries libraries() {
        return new CudaLibraries(LibraryPlaces.of(environment, root), LibraryPlaces.hint(environment), file -> {
            opened.add(root.relativize(root.resolve(file)).toString());
            if (!file.contains("/")) {
                throw new IllegalArgumentException("Cannot open library: " + file);
            }
            return name -> Optional.of(MemorySegment.NULL);
        });
    }

    private void file(String path) throws IOException {
        Path file = root.resolve(path);
        Files.createDirectories(file.getParent());
        byte[] head = new byte[64];
        System.arraycopy(new byte[] {0x7f, 'E', 'L', 'F', 2}, 0, head, 0, 5);
        head[18] = 62;
        Files.write(file, head);
    }

    private String found(CudaLibrary library, int newestMajor) {
        LibrarySearch search = libraries().find(library, newestMajor);
        LibrarySearch.Found found = assertInstanceOf(LibrarySearch.Found.class, search, search.toString());
        return root.relativize(Path.of(found.loaded().path())).toString();
    }

    @Test
    void places_are_searched_in_the_documented_order() throws IOException {
        environment.put("OCTET_CUDA_HOME", root.resolve("own").toString());
        environment.put("CUDA_HOME", root.resolve("home").toString());
        environment.put("VIRTUAL_ENV", root.resolve("venv").toString());
        List<String> order = List.of(
                "own/lib64/libnvrtc.so.12",
                "own/lib/libnvrtc.so.12",
                "own/targets/x86_64-linux/lib/libnvrtc.so.12",
                "own/libnvrtc.so.12",
                "home/lib64/libnvrtc.so.12",
                "usr/local/cuda/lib64/libnvrtc.so.12",
                "usr/local/cuda-12.10/lib64/libnvrtc.so.12",
                "usr/local/cuda-12.9/lib64/libnvrtc.so.12",
                "usr/lib/x86_64-linux-gnu/libnvrtc.so.12",
                "opt/cuda/lib64/libnvrtc.so.12",
                "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.12",
                "usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        for (String path : order) {
            file(path);
        }
        for (String path : order) {
            assertEquals(path, found(CudaLibrary.NVRTC, CudaLibraries.ANY_MAJOR));
            Files.delete(root.resolve(path));
        }
        assertInstanceOf(LibrarySearch.Absent.class, libraries().find(CudaLibrary.NVRTC));
    }

    @Test
    void the_environment_of_the_python_on_the_path_is_searched_without_activation() throws IOException {
        python("somewhere/venv");
        environment.put("PATH", root.resolve("nowhere") + ":" + root.resolve("somewhere/venv/bin"));
        String library = "somewhere/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13";
        file(library);
        file("usr/lib/python3/dist-packages/nvidia/cublas/lib/libcublasLt.so.13");
        assertEquals(library, found(CudaLibrary.CUBLAS_LT, CudaLibraries.ANY_MAJOR));
        // a link to the environment's python from a folder that is none
        Files.createDirectories(root.resolve("usr/local/bin"));
        Files.createSymbolicLink(root.resolve("usr/local/bin/python3"), Path.of("../../../somewhere/venv/bin/python3"));
        environment.put("PATH", root.resolve("usr/local/bin").toString());
        assertEquals(library, found(CudaLibrary.CUBLAS_LT, CudaLibraries.ANY_MAJOR));
        // the first python decides, as in a shell
        python("other");
        environment.put("PATH", root.resolve("other/bin") + ":" + root.resolve("somewhere/venv/bin"));
        assertEquals(
                "usr/lib/python3/dist-packages/nvidia/cublas/lib/libcublasLt.so.13",
                found(CudaLibrary.CUBLAS_LT, CudaLibraries.ANY_MAJOR));
    }

    /** A virtual environment. */
    private void python(String folder) throws IOException {
        Path bin = Files.createDirectories(root.resolve(folder).resolve("bin"));
        assertTrue(Files.createFile(bin.resolve("python3")).toFile().setExecutable(true));
        Files.writeString(root.resolve(folder).resolve("pyvenv.cfg"), "home = /usr/bin\n");
    }

    @Test
    void environments_at_the_usual_places_come_last_and_other_folders_are_left_alone() throws IOException {
        environment.put("HOME", root.resolve("home/user").toString());
        String library = "/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13";
        List<String> order = List.of(
                "usr/local/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.13",
                "opt/venv" + library,
                "opt/pytorch/.venv" + library,
                "home/user/.venv" + library);
        for (String path : order) {
            file(path);
        }
        for (String venv : List.of("opt/venv", "opt/pytorch/.venv", "home/user/.venv")) {
            python(venv);
        }
        file("opt/other/venv" + library); // without pyvenv.cfg
        for (String path : order) {
            assertEquals(path, found(CudaLibrary.CUBLAS_LT, CudaLibraries.ANY_MAJOR));
            Files.delete(root.resolve(path));
        }
        assertInstanceOf(LibrarySearch.Absent.class, libraries().find(CudaLibrary.CUBLAS_LT));
    }

    @Test
    void the_loader_is_asked_behind_the_variables_and_before_the_usual_folders() throws IOException {
        environment.put("CUDA_HOME", root.resolve("home").toString());
        file("home/lib64/other.so");
        file("usr/local/cuda/lib64/libcublasLt.so.12");
        assertEquals("usr/local/cuda/lib64/libcublasLt.so.12", found(CudaLibrary.CUBLAS_LT, CudaLibraries.ANY_MAJOR));
        assertEquals(
                List.of("libcublasLt.so.13", "libcublasLt.so.12", "usr/local/cuda/lib64/libcublasLt.so.12"), opened);
    }

    @Test
    void in_one_place_the_newest_version_that_the_driver_supports_is_taken() throws IOException {
        file("usr/local/cuda/lib64/libcublasLt.so.12");
        file("usr/local/cuda/lib64/libcublasLt.so.13");
        file("usr/local/cuda/lib64/libcublasLt.so.14");
        assertEquals("usr/local/cuda/lib64/libcublasLt.so.13", found(CudaLibrary.CUBLAS_LT, 14));
        assertEquals("usr/local/cuda/lib64/libcublasLt.so.13", found(CudaLibrary.CUBLAS_LT, 13));
        assertEquals("usr/local/cuda/lib64/libcublasLt.so.12", found(CudaLibrary.CUBLAS_LT, 12));
        UnavailableException e = assertThrows(
                UnavailableException.class,
                () -> libraries().find(CudaLibrary.CUBLAS_LT, 11).orThrow());
        assertTrue(e.what().contains("the driver supports CUDA 11 at most"), e.what());
    }

    @Test
    void an_absence_names_every_place_and_the_remedy() {
        environment.put("OCTET_CUDA_HOME", root.resolve("nowhere").toString());
        UnavailableException e = assertThrows(
                UnavailableException.class,
                () -> libraries().find(CudaLibrary.CUBLAS_LT).orThrow());
        assertEquals("libcublasLt.so.13 or libcublasLt.so.12 was not found", e.what());
        assertTrue(e.where().contains(root.resolve("nowhere").toString()), e.where());
        assertTrue(e.where().contains("the system's loader"), e.where());
        assertTrue(e.fix().contains("OCTET_CUDA_HOME"), e.fix());
        assertEquals(3, String.valueOf(e.getMessage()).lines().count());
    }

    @Test
    void a_file_that_is_no_library_is_told_and_passed_over() throws IOException {
        file("cuda/lib64/libcublasLt.so.13");
        Files.writeString(root.resolve("cuda/lib64/libcublasLt.so.13"), "a text of more than twenty bytes");
        environment.put("OCTET_CUDA_HOME", root.resolve("cuda").toString());
        LibrarySearch.Absent absent =
                assertInstanceOf(LibrarySearch.Absent.class, libraries().find(CudaLibrary.CUBLAS_LT));
        assertEquals("libcublasLt.so.13 or libcublasLt.so.12 cannot be loaded", absent.what());
        assertTrue(absent.where().contains("cuda/lib64/libcublasLt.so.13 (not a shared library)"), absent.where());
    }

    @Test
    void a_file_that_the_loader_refuses_is_told_and_passed_over() throws IOException {
        file("cuda/lib64/libcublasLt.so.13");
        environment.put("OCTET_CUDA_HOME", root.resolve("cuda").toString());
        CudaLibraries refusing = new CudaLibraries(LibraryPlaces.of(environment, root), "", file -> {
            throw new IllegalArgumentException("Cannot open library: " + file);
        });
        LibrarySearch.Absent absent =
                assertInstanceOf(LibrarySearch.Absent.class, refusing.find(CudaLibrary.CUBLAS_LT));
        assertTrue(absent.where().contains("libcublasLt.so.13 (the system's loader rejects it"), absent.where());
    }

    @Test
    void a_library_of_another_processor_is_told() throws IOException {
        file("cuda/lib64/libcublasLt.so.13");
        byte[] head = Files.readAllBytes(root.resolve("cuda/lib64/libcublasLt.so.13"));
        head[18] = (byte) 183; // AArch64
        Files.write(root.resolve("cuda/lib64/libcublasLt.so.13"), head);
        environment.put("OCTET_CUDA_HOME", root.resolve("cuda").toString());
        LibrarySearch.Absent absent =
                assertInstanceOf(LibrarySearch.Absent.class, libraries().find(CudaLibrary.CUBLAS_LT));
        assertTrue(absent.where().contains("(made for another processor)"), absent.where());
    }

    @Test
    void a_library_that_is_another_one_is_refused_by_its_functions() {
        LoadedLibrary other =
                new LoadedLibrary(CudaLibrary.NVRTC, "somewhere/libnvrtc.so.13", 13, name -> Optional.empty());
        UnavailableException e = assertThrows(UnavailableException.class, () -> Nvrtc.of(other));
        assertTrue(e.what().startsWith("libnvrtc.so.13 has no function nvrtc"), e.what());
        assertEquals("somewhere/libnvrtc.so.13", e.where());
    }

    @Test
    void versions_in_names_are_compared_as_numbers() {
        assertTrue(LibraryPlaces.compareVersions("cuda-12.10", "cuda-12.9") > 0);
        assertTrue(LibraryPlaces.compareVersions("cuda-13", "cuda-12.9") > 0);
        assertEquals(0, LibraryPlaces.compareVersions("cuda", "cuda"));
        assertFalse(LibraryPlaces.compareVersions("cuda", "cuda-12") > 0);
    }
}
