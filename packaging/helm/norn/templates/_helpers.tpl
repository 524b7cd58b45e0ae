{{- define "norn.name" -}}
{{- $own := default "norn" .Values.nameOverride -}}
{{- if contains $own .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $own | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "norn.selector" -}}
app.kubernetes.io/name: norn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "norn.labels" -}}
{{ include "norn.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Where nodes ask for the others: all of them by name. */ -}}
{{- define "norn.join" -}}
{{- $name := include "norn.name" . -}}
{{- range $i := until (int .Values.replicas) -}}
{{- if $i }},{{ end }}{{ $name }}-{{ $i }}.{{ $name }}-nodes:7712
{{- end -}}
{{- end -}}
