@echo off
rem Starts Octet on Windows, as the file octet does elsewhere: finds a JDK 25, builds the program when there is none, runs it.
rem In an unpacked archive, where this file lies in bin, it runs what lies beside that folder. See README.md and docs\platforms.md.
setlocal EnableExtensions DisableDelayedExpansion

for %%I in ("%~dp0.") do set "home=%%~fI"
for %%I in ("%home%") do set "name=%%~nxI"
set "packed="
if /i "%name%"=="bin" if exist "%home%\..\octet.jar" set "packed=yes"
if defined packed for %%I in ("%home%\..") do set "home=%%~fI"

call :find_jdk
if not defined jdk (
    call :fail "Octet needs a JDK 25, none was found" "JAVA25_HOME, JAVA_HOME, PATH and the usual folders" "install Temurin 25 from https://adoptium.net, or set JAVA25_HOME to where a JDK 25 lies"
    exit /b 5
)

set "launcher=%home%\cli\src\main\launcher"
set "target=%home%\cli\target"
if defined packed set "launcher=%home%\launcher"
if defined packed set "target=%home%"
rem what `mvn package` made goes before what this file builds; after a change of the sources, remove both
if not exist "%target%\octet.jar" if not defined packed set "target=%target%\quick"
set "jar=%target%\octet.jar"
set "cache=%target%\octet.aot"
if exist "%jar%" goto run

set "log=%target%\octet-build.log"
for %%I in (mvn.cmd) do set "maven=%%~$PATH:I"
if not defined maven (
    call :fail "Octet is not built yet and Maven was not found" "PATH" "install Maven 3.8 or later and run again"
    exit /b 5
)
if not exist "%target%" mkdir "%target%" 2>nul
type nul >"%log%" 2>nul
if not exist "%log%" (
    call :fail "cannot write the build's output" "%target%" "check the permissions of the folder and the space on its disk"
    exit /b 4
)
>&2 echo octet: building, first use; Maven downloads what it has not yet, 170 MB at most; log: "%log%"
call :build
if errorlevel 1 (
    type "%log%" 1>&2
    call :fail "the build failed" "%log%" "check the network and the disk, then run again; if it fails again, report it"
    exit /b 70
)
if exist "%cache%" del "%cache%"

:run
rem ONNX Runtime would send what it is used for to its maker
set "ORT_DISABLE_TELEMETRY=1"
set "verb=%~1"
set "arguments=short"
set "option="
for /f "usebackq eol=# tokens=1-4" %%V in ("%launcher%\verbs") do if "%%V"=="%verb%" (set "arguments=%%W" & set "option=%%X" & set "instead=%%Y")
if defined option for %%A in (%*) do if "%%~A"=="%option%" set "arguments=%instead%"
rem the JVM makes no cache of linked classes with the vector module
findstr /c:"jdk.incubator.vector" "%launcher%\%arguments%.args" >nul || goto cached
"%jdk%\bin\java.exe" "@%launcher%\common.args" "@%launcher%\%arguments%.args" "-XX:ErrorFile=%TEMP%\octet-crash-%%p.log" %OCTET_JAVA_OPTIONS% "-Doctet.home=%home%" -cp "%jar%" dev.octet.cli.Start %*
exit /b %errorlevel%

:cached
rem an ahead-of-time cache: classes linked, methods known to be hot; without it everything works, only slower
if exist "%cache%" goto start_cached
>&2 echo octet: making the cache that later starts are quick with, once: "%cache%"
"%jdk%\bin\java.exe" "-XX:AOTCacheOutput=%cache%.new" "@%launcher%\common.args" "@%launcher%\streams.args" -cp "%jar%" dev.octet.cli.CacheRun >"%target%\octet-aot.log" 2>&1
if exist "%cache%.new" move /y "%cache%.new" "%cache%" >nul
:start_cached
rem the JVM goes on without a cache that is missing or of another build
"%jdk%\bin\java.exe" "-XX:AOTCache=%cache%" -Xlog:aot=off -Xlog:cds=off "@%launcher%\common.args" "@%launcher%\%arguments%.args" "-XX:ErrorFile=%TEMP%\octet-crash-%%p.log" %OCTET_JAVA_OPTIONS% "-Doctet.home=%home%" -cp "%jar%" dev.octet.cli.Start %*
exit /b %errorlevel%

rem ------------------------------------------------------------------------------------------------------------------------------

:build
setlocal
set "JAVA25_HOME=%jdk%"
set "JAVA_HOME=%jdk%"
set "MAVEN_OPTS=-XX:TieredStopAtLevel=1 %MAVEN_OPTS%"
rem Maven reads this by itself from 3.9 on only, so it is given by hand
set "given=%MAVEN_ARGS%"
set "MAVEN_ARGS="
pushd "%home%"
call "%maven%" -B %given% -Dquick -pl cli -am package <nul >"%log%" 2>&1
exit /b %errorlevel%

:find_jdk
set "jdk="
if defined packed if exist "%home%\runtime\bin\java.exe" set "jdk=%home%\runtime"
if defined jdk exit /b 0
call :try_jdk "%JAVA25_HOME%"
call :try_jdk "%JAVA_HOME%"
for %%I in (java.exe) do call :try_jdk "%%~dp$PATH:I.."
for /d %%D in (
    "%ProgramFiles%\Eclipse Adoptium\jdk-25*"
    "%ProgramFiles%\Java\jdk-25*"
    "%ProgramFiles%\Microsoft\jdk-25*"
    "%ProgramFiles%\Amazon Corretto\jdk25*"
    "%ProgramFiles%\Zulu\zulu-25*"
    "%ProgramFiles%\BellSoft\LibericaJDK-25*"
    "%LOCALAPPDATA%\Programs\Eclipse Adoptium\jdk-25*"
    "%USERPROFILE%\.jdks\*25*"
    "%USERPROFILE%\.gradle\jdks\*25*"
    "%USERPROFILE%\scoop\apps\temurin25-jdk\current"
    "%USERPROFILE%\scoop\apps\openjdk25\current"
) do call :try_jdk "%%~D"
exit /b 0

rem FOLDER: sets jdk to it unless one is found already; its file "release" says the version, without starting a JVM
:try_jdk
if defined jdk exit /b 0
if "%~1"=="" exit /b 0
if not exist "%~1\bin\java.exe" exit /b 0
if not exist "%~1\bin\javac.exe" exit /b 0
if not exist "%~1\release" exit /b 0
set "version="
for /f "usebackq tokens=1,2 delims==" %%A in ("%~1\release") do if "%%A"=="JAVA_VERSION" set "version=%%~B"
for /f "tokens=1 delims=.+-" %%M in ("%version%") do if "%%M"=="25" for %%I in ("%~1") do set "jdk=%%~fI"
exit /b 0

rem WHAT WHERE FIX
:fail
>&2 echo octet: %~1
>&2 echo   where: %~2
>&2 echo   fix:   %~3
exit /b 0
