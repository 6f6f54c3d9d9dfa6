{{- define "model-gateway.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "model-gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "model-gateway.labels" -}}
{{ include "model-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "model-gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "model-gateway.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "model-gateway.configMapName" -}}
{{- default (include "model-gateway.fullname" .) .Values.existingConfigMap }}
{{- end }}

{{/* Mistakes that the schema cannot see. */}}
{{- define "model-gateway.validate" -}}
{{- if and (not .Values.existingConfigMap) (contains "${ADMIN_KEY}" .Values.config) (not .Values.adminKey.existingSecret) (not .Values.existingSecrets) (not .Values.env) }}
{{- fail "adminKey.existingSecret is empty, but config uses ${ADMIN_KEY}. Create it with: kubectl create secret generic model-gateway --from-literal=admin-key=sk-..." }}
{{- end }}
{{- $many := or (gt (int .Values.replicaCount) 1) .Values.autoscaling.enabled }}
{{- if and $many (not .Values.existingConfigMap) (not (contains "postgres" .Values.config)) }}
{{- fail "more than one replica needs a PostgreSQL store: set [store] url in config. Otherwise each replica counts keys and budgets for itself." }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.authorization.existingSecret) }}
{{- fail "serviceMonitor.authorization.existingSecret is empty, but /metrics needs a key of role admin" }}
{{- end }}
{{- end }}
